"""Electing one leader among the replicas of the operator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from gt_operator.errors import ApiRefused, KubeError
from gt_operator.kube.client import KubeClient
from gt_operator.kube.lease import RENEW_DEADLINE, RETRY_PERIOD, Watchfulness, held, may_hold, released
from gt_operator.metrics import LEADING
from gt_operator.objects import Object

log: structlog.stdlib.BoundLogger = structlog.get_logger(component="operator")


class Election:
    """Takes part in the election until it is stopped.

    Attributes:
        tried: When the Lease was last asked for, successfully or not, by the monotonic clock in seconds.
    """

    def __init__(
        self, client: KubeClient, namespace: str, name: str, identity: str, lead: Callable[[], Awaitable[None]]
    ) -> None:
        """Sets up the election.

        Args:
            client: The API server.
            namespace: Namespace of the Lease, which must exist.
            name: Name of the Lease.
            identity: What this process calls itself.
            lead: Runs while this process leads; it is cancelled when that ends.
        """
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lead = lead
        self._memory = Watchfulness()
        self._lease: Object | None = None
        self._renewed = time.monotonic()
        self.tried = time.monotonic()

    @property
    def last_change(self) -> float:
        """When the Lease was last seen to change, by the monotonic clock in seconds; 0 before the first time."""
        return self._memory.since

    async def run(self) -> None:
        """Takes part until cancelled; a leader then gives the Lease back."""
        while True:
            await self._until_held()
            log.info("leading", identity=self._identity)
            LEADING.set(1)
            leading = asyncio.ensure_future(self._lead())
            try:
                await self._while_held(leading)
            except asyncio.CancelledError:
                await _end(leading)
                await self._release()
                raise
            finally:
                LEADING.set(0)
                await _end(leading)
            log.warning("not leading any more", identity=self._identity)

    async def _until_held(self) -> None:
        while True:
            if await self._try_to_hold():
                return
            await asyncio.sleep(RETRY_PERIOD)

    async def _while_held(self, leading: asyncio.Future[None]) -> None:
        while time.monotonic() - self._renewed < RENEW_DEADLINE:
            await asyncio.wait([leading], timeout=RETRY_PERIOD)
            if leading.done():
                _report(leading)
                return
            deadline = self._renewed + RENEW_DEADLINE - time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, deadline)):
                    await self._try_to_hold()
            except TimeoutError:
                return
            if not self._is_holder():
                return

    async def _try_to_hold(self) -> bool:
        """Takes or renews the Lease; returns whether this process holds it and has just said so."""
        self.tried = time.monotonic()
        try:
            lease = await self._client.get("Lease", self._namespace, self._name)
            if lease is None:
                log.error("the Lease is missing; install the chart again", lease=f"{self._namespace}/{self._name}")
                return False
            now = time.monotonic()
            self._memory.see(lease, now)
            self._lease = lease
            if not may_hold(lease, self._identity, self._memory, now):
                return False
            self._lease = await self._client.replace(held(lease, self._identity, datetime.now(UTC)))
        except ApiRefused as error:
            # Another was faster.
            if error.status != 409:
                log.warning("the Lease can't be written", reason=str(error))
            return False
        except KubeError as error:
            log.warning("the API server does not answer", reason=str(error))
            return False
        self._renewed = now
        return True

    def _is_holder(self) -> bool:
        return self._lease is not None and self._lease["spec"].get("holderIdentity") == self._identity

    async def _release(self) -> None:
        if not self._is_holder() or self._lease is None:
            return
        try:
            await self._client.replace(released(self._lease, datetime.now(UTC)))
        except KubeError as error:
            log.warning("the Lease could not be given back; others wait for it to end", reason=str(error))


def _report(leading: asyncio.Future[None]) -> None:
    try:
        leading.result()
    except KubeError as error:
        log.error("leading ended; trying again", reason=str(error))


async def _end(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
