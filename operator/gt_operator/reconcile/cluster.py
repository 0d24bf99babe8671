"""Reconciling a GTCluster."""

from __future__ import annotations

import asyncio

from pydantic import ValidationError

from gt_operator.builders.cluster import ClusterDesign, design_cluster
from gt_operator.builders.workers import WorkerSlot, random_suffix, worker_pod
from gt_operator.errors import TemplateError
from gt_operator.objects import Key, Object, is_going, name_of, uid_of
from gt_operator.observe.blockers import INVALID, NAMESPACE_TERMINATING, QUOTA_EXCEEDED, Blocker
from gt_operator.observe.cluster_plan import ClusterPlan, decide_cluster
from gt_operator.observe.cluster_status import ClusterView, cluster_status
from gt_operator.observe.pods import has_component
from gt_operator.observe.sharding import NO_SHARDING, Verdict
from gt_operator.reconcile import quota, shardings
from gt_operator.reconcile.attempts import Attempts
from gt_operator.reconcile.context import Context, Outcome
from gt_operator.reconcile.hints import find_hint
from gt_operator.reconcile.namespaces import LEFT_ALONE_FOR
from gt_operator.store import Kind
from gt_protocol.resources import GTCluster
from gt_protocol.resources.constants import WORKER

_AT_ONCE = 8
"""Pods that are asked for at the same time; one refusal stops what comes after."""


class ClusterReconciler:
    """Makes what GTClusters ask for."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._designs: dict[str, tuple[tuple[int, str], ClusterDesign]] = {}
        self._uids: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Brings a cluster one step nearer to what is asked for.

        Raises:
            KubeError: The API server did not answer, or refused the status.
        """
        obj = self._context.store.get(Kind.CLUSTER, key.namespace, key.name)
        if obj is None or is_going(obj):
            self._forget(key)
            return Outcome()
        self._uids[key] = uid_of(obj)
        if rest := self._context.leaving.rest(key.namespace):
            return Outcome(check_again=rest)
        attempts = Attempts()
        try:
            cluster = GTCluster.model_validate(obj)
        except ValidationError as error:
            # It was stored under older rules.
            blocker = Blocker(INVALID, f"the specification can't be used: {error}")
            view = ClusterView(0, {}, False, (), self._deployment(key), NO_SHARDING, refused=(blocker,))
            await self._context.reporter.report(
                Kind.CLUSTER, obj, cluster_status(obj, view, self._context.now()), "Ready"
            )
            return Outcome()
        sharding = await self._check_sharding(key, cluster)
        design = await self._design(cluster, attempts)
        waits: list[float | None] = []
        if design is not None:
            plan = decide_cluster(design, self._workers(key), self._is_held(key, sharding), self._context.now())
            await self._carry_out(key, cluster, plan, attempts)
            waits.append(plan.check_again)
        view, ask_again = await self._look(key, cluster, design, sharding, attempts)
        status = cluster_status(obj, view, self._context.now())
        self._set_interest(key, cluster, attempts.reasons | {status["reason"]})
        await self._context.reporter.report(Kind.CLUSTER, obj, status, "Ready")
        if NAMESPACE_TERMINATING in attempts.reasons:
            self._context.leaving.note(key.namespace)
            waits.append(LEFT_ALONE_FOR)
        check_again = min((wait for wait in (*waits, ask_again) if wait is not None), default=None)
        return Outcome(retry=attempts.worth_retrying, check_again=check_again)

    def _forget(self, key: Key) -> None:
        self._context.watches.set_interest(key, frozenset())
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._context.applier.forget(uid)
            self._context.keys.forget(uid)
            self._designs.pop(uid, None)

    def _workers(self, key: Key) -> list[Object]:
        pods = self._context.store.of_cluster(Kind.POD, key.namespace, key.name)
        return [pod for pod in pods if has_component(pod, WORKER)]

    def _deployment(self, key: Key) -> Object | None:
        found = self._context.store.of_cluster(Kind.DEPLOYMENT, key.namespace, key.name)
        return found[0] if found else None

    def _is_held(self, key: Key, sharding: Verdict) -> bool:
        # A wrong file keeps a cluster from starting, and never stops one that has started.
        return not sharding.valid and self._deployment(key) is None

    async def _check_sharding(self, key: Key, cluster: GTCluster) -> Verdict:
        ref = None if cluster.spec.sharding is None else cluster.spec.sharding.config_map_ref
        size = sum(group.replicas for group in cluster.spec.worker_groups)
        return await shardings.check(self._context.watches, ref, key.namespace, size)

    async def _design(self, cluster: GTCluster, attempts: Attempts) -> ClusterDesign | None:
        fingerprint = await attempts.run("keys", self._context.keys.ensure(cluster))
        if fingerprint is None:
            return None
        version = (cluster.metadata.generation, fingerprint)
        known = self._designs.get(cluster.metadata.uid)
        if known is not None and known[0] == version:
            return known[1]
        try:
            design = design_cluster(cluster, self._context.config, fingerprint)
        except TemplateError as error:
            attempts.refused.append(Blocker(INVALID, str(error)))
            return None
        self._designs[cluster.metadata.uid] = (version, design)
        return design

    async def _carry_out(self, key: Key, cluster: GTCluster, plan: ClusterPlan, attempts: Attempts) -> None:
        await asyncio.gather(
            *(self._ensure(body, attempts) for body in plan.surroundings),
            *(attempts.run(f"pod {name_of(pod)}", self._context.client.delete("Pod", pod)) for pod in plan.delete),
        )
        if plan.dispatcher is not None:
            # Its pods would be refused without the ServiceAccount.
            await self._ensure(plan.dispatcher, attempts)
        stuck = quota.retry_deployment(self._context.client, self._context.watches, self._deployment(key))
        await attempts.run(f"Deployment of {key}", stuck)
        for start in range(0, len(plan.create), _AT_ONCE):
            if attempts.refused:
                return
            slots = plan.create[start : start + _AT_ONCE]
            await asyncio.gather(*(self._create(cluster, slot, attempts) for slot in slots))

    async def _ensure(self, body: Object, attempts: Attempts) -> None:
        await attempts.run(f"{body['kind']} {name_of(body)}", self._context.applier.ensure(body))

    async def _create(self, cluster: GTCluster, slot: WorkerSlot, attempts: Attempts) -> None:
        body = worker_pod(cluster, slot, random_suffix())
        pod = await attempts.run(f"pod {name_of(body)}", self._context.client.create(body))
        if pod is not None:
            # Known at once, and not when the watch shows it: otherwise the next look would make another.
            self._context.store.put(Kind.POD, pod)

    def _set_interest(self, key: Key, cluster: GTCluster, reasons: set[str]) -> None:
        targets = set()
        if cluster.spec.sharding is not None:
            targets.add(shardings.target_of(cluster.spec.sharding.config_map_ref, key.namespace))
        if QUOTA_EXCEEDED in reasons:
            targets.add(quota.target_of(key.namespace))
        self._context.watches.set_interest(key, frozenset(targets))

    async def _look(
        self, key: Key, cluster: GTCluster, design: ClusterDesign | None, sharding: Verdict, attempts: Attempts
    ) -> tuple[ClusterView, float | None]:
        """Returns what is known now, and the seconds after which to look again."""
        pods = self._context.store.of_cluster(Kind.POD, key.namespace, key.name)
        hint, ask_again = await find_hint(self._context.client, pods, self._context.now())
        view = ClusterView(
            size=sum(group.replicas for group in cluster.spec.worker_groups),
            hashes={} if design is None else {slot.index: slot.hash for slot in design.workers},
            suspended=cluster.spec.suspend,
            pods=tuple(pods),
            deployment=self._deployment(key),
            sharding=sharding,
            refused=tuple(attempts.refused),
            hint=hint,
        )
        return view, ask_again
