"""Reconciling a GTJob."""

from __future__ import annotations

from pydantic import ValidationError

from gt_operator.builders.job import batch_job, inline_sharding, own_cluster, sharding_ref
from gt_operator.builders.ownership import cluster_of
from gt_operator.kube.named_watches import Target
from gt_operator.objects import Key, Object, is_going, label_of, name_of, owner_uid, uid_of
from gt_operator.observe.blockers import INVALID, NAMESPACE_TERMINATING, Blocker
from gt_operator.observe.job_plan import JobPlan, Step, decide_job, has_ended
from gt_operator.observe.job_status import JobView, job_status
from gt_operator.observe.sharding import NO_SHARDING, Verdict, check_text
from gt_operator.reconcile import shardings
from gt_operator.reconcile.attempts import Attempts
from gt_operator.reconcile.context import Context, Outcome
from gt_operator.reconcile.hints import find_hint
from gt_operator.reconcile.namespaces import LEFT_ALONE_FOR
from gt_operator.store import Kind
from gt_protocol.resources import GTCluster, GTJob
from gt_protocol.resources.constants import JOB_LABEL


class JobReconciler:
    """Makes what GTJobs ask for."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._uids: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Brings a job one step nearer to what is asked for.

        Raises:
            KubeError: The API server did not answer, or refused the status.
        """
        obj = self._context.store.get(Kind.JOB, key.namespace, key.name)
        if obj is None or is_going(obj):
            self._forget(key)
            return Outcome()
        self._uids[key] = uid_of(obj)
        if rest := self._context.leaving.rest(key.namespace):
            return Outcome(check_again=rest)
        try:
            job = GTJob.model_validate(obj)
        except ValidationError as error:
            # It was stored under older rules.
            blocker = Blocker(INVALID, f"the specification can't be used: {error}")
            view = JobView("", False, None, (), NO_SHARDING, refused=(blocker,))
            await self._context.reporter.report(Kind.JOB, obj, job_status(obj, view, self._context.now()), "Running")
            return Outcome()
        if has_ended(obj):
            return await self._clean_up(key, job)
        return await self._advance(key, obj, job)

    async def _advance(self, key: Key, obj: Object, job: GTJob) -> Outcome:
        attempts = Attempts()
        sharding = await self._check_sharding(key, job)
        running = self._batch_job(key)
        if running is None or running["spec"].get("suspend") or job.spec.suspend:
            await self._make_surroundings(job, attempts)
        cluster = self._context.store.get(Kind.CLUSTER, key.namespace, cluster_of(job))
        plan = decide_job(obj, job.spec.suspend, sharding, cluster, cluster_of(job), running)
        if not attempts.refused:
            await self._carry_out(key, job, cluster, plan, attempts)
        pods = self._pods(key, job)
        hint, ask_again = await find_hint(self._context.client, pods, self._context.now())
        refused = (*attempts.refused, hint) if hint else tuple(attempts.refused)
        view = JobView(cluster_of(job), job.spec.suspend, self._batch_job(key), pods, sharding, plan.waits_for, refused)
        status = job_status(obj, view, self._context.now())
        await self._context.reporter.report(Kind.JOB, obj, status, "Running")
        if NAMESPACE_TERMINATING in attempts.reasons:
            self._context.leaving.note(key.namespace)
            return Outcome(check_again=LEFT_ALONE_FOR)
        if plan.delete_cluster:
            return await self._clean_up(key, job)
        return Outcome(retry=attempts.worth_retrying, check_again=ask_again)

    def _forget(self, key: Key) -> None:
        self._context.watches.set_interest(key, frozenset())
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._context.applier.forget(uid)

    def _batch_job(self, key: Key) -> Object | None:
        found = self._context.store.get(Kind.BATCH_JOB, key.namespace, key.name)
        return None if found is None or owner_uid(found) != self._uids[key] else found

    def _pods(self, key: Key, job: GTJob) -> tuple[Object, ...]:
        pods = self._context.store.of_cluster(Kind.POD, key.namespace, cluster_of(job))
        return tuple(pod for pod in pods if label_of(pod, JOB_LABEL) == key.name)

    async def _check_sharding(self, key: Key, job: GTJob) -> Verdict:
        workers = self._cluster_size(key, job)
        if job.spec.sharding is not None and job.spec.sharding.inline is not None:
            return check_text(job.spec.sharding.inline, "spec.sharding.inline", workers)
        ref = sharding_ref(job)
        targets: frozenset[Target] = (
            frozenset() if ref is None else frozenset({shardings.target_of(ref, key.namespace)})
        )
        self._context.watches.set_interest(key, targets)
        return await shardings.check(self._context.watches, ref, key.namespace, workers)

    def _cluster_size(self, key: Key, job: GTJob) -> int | None:
        if job.spec.cluster_template is not None:
            return sum(group.replicas for group in job.spec.cluster_template.spec.worker_groups)
        cluster = self._context.store.get(Kind.CLUSTER, key.namespace, cluster_of(job))
        return None if cluster is None else sum(group["replicas"] for group in cluster["spec"]["workerGroups"])

    async def _make_surroundings(self, job: GTJob, attempts: Attempts) -> None:
        for body in (inline_sharding(job), own_cluster(job)):
            if body is not None:
                await attempts.run(f"{body['kind']} {name_of(body)}", self._context.applier.ensure(body))

    async def _carry_out(self, key: Key, job: GTJob, cluster: Object | None, plan: JobPlan, attempts: Attempts) -> None:
        if plan.step is Step.CREATE and cluster is not None:
            await attempts.run(f"job {key.name}", self._create(job, cluster))
        elif plan.step in (Step.SUSPEND, Step.RESUME):
            body = {"spec": {"suspend": plan.step is Step.SUSPEND}}
            change = self._context.client.patch("Job", key.namespace, key.name, body)
            changed = await attempts.run(f"job {key.name}", change)
            if changed is not None:
                self._context.store.put(Kind.BATCH_JOB, changed)

    async def _create(self, job: GTJob, obj: Object) -> None:
        cluster = GTCluster.model_validate(obj)
        fingerprint = await self._context.keys.ensure(cluster)
        await self._context.applier.ensure(batch_job(job, cluster, self._context.config, fingerprint))

    async def _clean_up(self, key: Key, job: GTJob) -> Outcome:
        """Frees the devices of a job that has ended; its pods stay, for their logs."""
        self._context.watches.set_interest(key, frozenset())
        cluster = self._context.store.get(Kind.CLUSTER, key.namespace, key.name)
        own = job.spec.cluster_template is not None and cluster is not None
        if own and cluster is not None and owner_uid(cluster) == job.metadata.uid and not is_going(cluster):
            await self._context.client.delete("GTCluster", cluster)
        return Outcome()
