"""The operator at work: what watches bring goes into the store and the queue; who leads takes from the queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import structlog

from gt_operator.config import OperatorConfig
from gt_operator.errors import ConfigError, KubeError
from gt_operator.health import HealthServer, Pulse
from gt_operator.kube.client import KubeClient
from gt_operator.kube.election import Election
from gt_operator.metrics import QUEUE_LENGTH, RECONCILE_SECONDS, RECONCILES
from gt_operator.objects import Key, Object, label_of, name_of, namespace_of
from gt_operator.queue import WorkQueue
from gt_operator.reconcile.cluster import ClusterReconciler
from gt_operator.reconcile.context import Context, Outcome
from gt_operator.reconcile.job import JobReconciler
from gt_operator.store import Kind, Store
from gt_protocol.resources.constants import (
    CLUSTER_LABEL,
    CLUSTER_PLURAL,
    GROUP,
    JOB_LABEL,
    JOB_PLURAL,
    VERSION,
)

log: structlog.stdlib.BoundLogger = structlog.get_logger(component="operator")

AT_ONCE = 8
"""Objects that are reconciled at the same time."""
RECONCILE_DEADLINE = 120.0
"""Seconds that one reconciliation may take; making thousands of pods takes several."""
RESYNC_PERIOD = 600.0
"""Seconds after which everything is looked at again, for what no watch shows: deleted Secrets."""
CRD_DEADLINE = 60.0
"""Seconds that the API server may take to serve resources that were just installed."""


class Operator:
    """All parts of the operator, and their life."""

    def __init__(self, config: OperatorConfig, client: KubeClient) -> None:
        self._config = config
        self._client = client
        self._store = Store()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._context = Context.make(config, client, self._store, self._queue.add)
        self._reconcile: dict[str, Callable[[Key], Awaitable[Outcome]]] = {
            "GTCluster": ClusterReconciler(self._context).reconcile,
            "GTJob": JobReconciler(self._context).reconcile,
        }
        self._election = Election(client, config.lease_namespace, config.lease_name, config.identity, self._lead)
        self._pulse = Pulse(time.monotonic())
        self._health = HealthServer(config.port, self._take_pulse)
        self._electing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts to take part in the election.

        Raises:
            ConfigError: The API server doesn't serve GT's resources.
        """
        await self._health.start()
        await self._wait_for_resources()
        self._electing = asyncio.create_task(self._election.run(), name="election")
        self._electing.add_done_callback(_report_end)

    async def stop(self) -> None:
        """Stops all work, and lets another replica lead."""
        if self._electing is not None:
            self._electing.cancel()
            await asyncio.gather(self._electing, return_exceptions=True)
        await self._context.watches.close()
        await self._health.stop()

    def lease_seen(self, lease: Object) -> None:
        """Takes note that the watches are alive."""
        if namespace_of(lease) == self._config.lease_namespace and name_of(lease) == self._config.lease_name:
            self._pulse.through_watch = time.monotonic()

    def observe(self, kind: Kind, event: str | None, obj: Object) -> None:
        """Takes note of what a watch shows.

        Args:
            kind: Kind of the object.
            event: `DELETED`, another type of event, or None for what was there when the watch began.
            obj: The object.
        """
        if event == "DELETED":
            self._store.remove(kind, obj)
        else:
            self._store.put(kind, obj)
        for key in self._concerned(kind, obj):
            self._queue.add(key)

    def _concerned(self, kind: Kind, obj: Object) -> Iterator[Key]:
        namespace, name = namespace_of(obj), name_of(obj)
        if kind is Kind.JOB:
            yield Key("GTJob", namespace, name)
        elif job := label_of(obj, JOB_LABEL):
            # The job's own cluster carries its label too.
            yield Key("GTJob", namespace, job)
        if kind is Kind.CLUSTER:
            yield Key("GTCluster", namespace, name)
            for each in self._store.all(Kind.JOB):
                if namespace_of(each) == namespace and (each["spec"].get("clusterRef") or {}).get("name") == name:
                    yield Key("GTJob", namespace, name_of(each))
        elif kind is not Kind.JOB and not label_of(obj, JOB_LABEL):
            yield Key("GTCluster", namespace, label_of(obj, CLUSTER_LABEL))

    async def _wait_for_resources(self) -> None:
        wanted = {CLUSTER_PLURAL, JOB_PLURAL}
        deadline = time.monotonic() + CRD_DEADLINE
        while not wanted <= await self._client.served(GROUP, VERSION):
            if time.monotonic() > deadline:
                raise ConfigError(f"the API server doesn't serve {GROUP}/{VERSION}; install the CRDs")
            log.info("waiting for the API server to serve the CRDs", group=GROUP, version=VERSION)
            await asyncio.sleep(1.0)

    async def _lead(self) -> None:
        """Works until cancelled.

        Raises:
            KubeError: The API server can't be read.
        """
        # Watches may still be behind what another leader did last.
        await self._read_all()
        async with asyncio.TaskGroup() as tasks:
            for number in range(AT_ONCE):
                tasks.create_task(self._work(), name=f"reconciler {number}")
            tasks.create_task(self._resync(), name="resync")

    async def _read_all(self) -> None:
        for kind in Kind:
            labels = "" if kind in (Kind.CLUSTER, Kind.JOB) else CLUSTER_LABEL
            for namespace in self._config.namespaces or (None,):
                items, _ = await self._client.list(kind.value, namespace, labels=labels)
                for item in items:
                    self._store.put(kind, item)

    async def _resync(self) -> None:
        while True:
            for kind, name in ((Kind.CLUSTER, "GTCluster"), (Kind.JOB, "GTJob")):
                for obj in self._store.all(kind):
                    self._queue.add(Key(name, namespace_of(obj), name_of(obj)))
            await asyncio.sleep(RESYNC_PERIOD)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            QUEUE_LENGTH.set(len(self._queue))
            try:
                await self._handle(key)
            finally:
                self._queue.done(key)

    async def _handle(self, key: Key) -> None:
        result = "ok"
        try:
            with RECONCILE_SECONDS.labels(key.kind).time():
                async with asyncio.timeout(RECONCILE_DEADLINE):
                    outcome = await self._reconcile[key.kind](key)
        except (KubeError, TimeoutError) as error:
            result = "error"
            log.warning("to be tried again", object=str(key), delay=self._queue.retry(key), reason=str(error))
        except Exception:
            # A mistake of ours must not stop the work on all other objects.
            result = "bug"
            log.exception("to be tried again", object=str(key), delay=self._queue.retry(key))
        else:
            self._schedule(key, outcome)
        RECONCILES.labels(key.kind, result).inc()

    def _schedule(self, key: Key, outcome: Outcome) -> None:
        if outcome.retry:
            self._queue.retry(key)
        else:
            self._queue.succeeded(key)
        if outcome.check_again is not None:
            self._queue.add_after(key, outcome.check_again)

    def _take_pulse(self) -> Pulse:
        self._pulse.by_call = self._election.last_change
        self._pulse.tried = self._election.tried if self._electing is not None else time.monotonic()
        return self._pulse


def _report_end(task: asyncio.Task[None]) -> None:
    # Liveness notices too, and the process is restarted.
    if not task.cancelled() and task.exception() is not None:
        log.error("the election has ended by a mistake", exc_info=task.exception())
