"""What to do for a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from gt_operator.objects import Object, condition_of, is_going
from gt_operator.observe.blockers import Blocker
from gt_operator.observe.conditions import holds
from gt_operator.observe.sharding import Verdict

CLUSTER_NOT_FOUND = "ClusterNotFound"
WAITING = "WaitingForCluster"


class Step(Enum):
    """What to do with the batch Job."""

    NOTHING = auto()
    WAIT = auto()
    CREATE = auto()
    SUSPEND = auto()
    RESUME = auto()


@dataclass(frozen=True)
class JobPlan:
    """What to do.

    Attributes:
        step: What to do with the batch Job.
        waits_for: What it waits for, if it waits.
        delete_cluster: Whether the job's own cluster is no longer needed.
    """

    step: Step
    waits_for: Blocker | None = None
    delete_cluster: bool = False


def has_ended(job: Object) -> bool:
    """Whether a GTJob has ended, for good."""
    return holds(job, "Succeeded") or holds(job, "Failed")


def batch_job_has_ended(batch_job: Object | None) -> bool:
    """Whether a batch Job has ended."""
    return batch_job is not None and (holds(batch_job, "Complete") or holds(batch_job, "Failed"))


def decide_job(
    job: Object, suspend: bool, sharding: Verdict, cluster: Object | None, cluster_name: str, batch_job: Object | None
) -> JobPlan:
    """Returns what to do.

    Args:
        job: The GTJob.
        suspend: Whether the user wants it stopped.
        sharding: What is to be said about its sharding file.
        cluster: The GTCluster to run on, if it exists.
        cluster_name: Its name.
        batch_job: The batch Job, if it exists.
    """
    if has_ended(job) or batch_job_has_ended(batch_job):
        return JobPlan(Step.NOTHING, delete_cluster=True)
    suspended = batch_job is not None and bool(batch_job["spec"].get("suspend"))
    if batch_job is not None and suspend != suspended and suspend:
        return JobPlan(Step.SUSPEND)
    if suspend or (batch_job is not None and not suspended):
        return JobPlan(Step.NOTHING)
    blocker = _blocker(sharding, cluster, cluster_name)
    if blocker is not None:
        return JobPlan(Step.WAIT, blocker)
    return JobPlan(Step.CREATE if batch_job is None else Step.RESUME)


def _blocker(sharding: Verdict, cluster: Object | None, name: str) -> Blocker | None:
    if not sharding.valid:
        return Blocker(sharding.reason, sharding.message)
    if cluster is None or is_going(cluster):
        return Blocker(CLUSTER_NOT_FOUND, f"there is no GTCluster {name} in this namespace; make it")
    ready = condition_of(cluster, "Ready")
    current = ready.get("observedGeneration", 0) >= cluster["metadata"].get("generation", 0)
    if ready.get("status") == "True" and current:
        return None
    reason = ready.get("reason", "")
    # A reason that asks nobody to do anything is no news for the job's owner.
    if not current or reason in ("", "Starting", "AllWorkersReady"):
        reason = WAITING
    return Blocker(reason, f"GTCluster {name}: {ready.get('message') or 'its operator has not looked at it yet'}")
