"""What is done for a GTJob, and what is said about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gt_operator.observe.blockers import Blocker
from gt_operator.observe.job_plan import JobPlan, Step, decide_job
from gt_operator.observe.job_status import JobView, job_status
from gt_operator.observe.sharding import NO_SHARDING, Verdict
from gt_protocol.resources.job import GTJobStatus
from tests.support.operator_objects import NOW, Object, cluster, job, shown

READY = shown(cluster(), {"type": "Ready", "status": "True", "reason": "AllWorkersReady"})
WRONG = Verdict(False, "ShardingInvalid", "no")


def unready(reason: str, generation: int = 3) -> Object:
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": "m", "observedGeneration": generation}
    return shown(cluster(), condition)


def batch_job(*conditions: str, suspend: bool = False, **status: Any) -> Object:
    reached = [{"type": kind, "status": "True", "reason": f"{kind}Reason", "message": "m"} for kind in conditions]
    return {
        "metadata": {"name": "j", "uid": "batch"},
        "spec": {"suspend": suspend},
        "status": {"conditions": reached, **status},
    }


def decide(
    cluster_object: Object | None = READY,
    running: Object | None = None,
    *,
    suspend: bool = False,
    sharding: Verdict = NO_SHARDING,
    obj: Object | None = None,
) -> JobPlan:
    return decide_job(obj or shown(job()), suspend, sharding, cluster_object, "c", running)


def test_job_starts_once_its_cluster_is_ready() -> None:
    assert decide() == JobPlan(Step.CREATE)


@pytest.mark.parametrize(
    ("cluster_object", "reason"),
    [
        (None, "ClusterNotFound"),
        (shown(cluster()), "WaitingForCluster"),
        (unready("Starting"), "WaitingForCluster"),
        (unready("ImagePullBackOff"), "ImagePullBackOff"),
        (unready("Unschedulable"), "Unschedulable"),
        (unready("Suspended"), "Suspended"),
        # What was said about an older specification says nothing now.
        (unready("ImagePullBackOff", generation=2), "WaitingForCluster"),
    ],
)
def test_job_waits_and_says_for_what(cluster_object: Object | None, reason: str) -> None:
    plan = decide(cluster_object)
    assert plan.step is Step.WAIT
    assert plan.waits_for is not None
    assert plan.waits_for.reason == reason
    assert "GTCluster c" in plan.waits_for.message


def test_cluster_that_goes_counts_as_gone() -> None:
    going = shown(cluster(), {"type": "Ready", "status": "True"})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plan = decide(going)
    assert plan.waits_for is not None
    assert plan.waits_for.reason == "ClusterNotFound"


def test_wrong_file_keeps_a_job_from_starting_and_stops_none() -> None:
    assert decide(sharding=WRONG).waits_for == Blocker("ShardingInvalid", "no")
    assert decide(running=batch_job(), sharding=WRONG) == JobPlan(Step.NOTHING)


def test_running_job_does_not_depend_on_its_cluster_being_ready() -> None:
    assert decide(unready("Starting"), batch_job()) == JobPlan(Step.NOTHING)


def test_suspend_and_resume() -> None:
    assert decide(suspend=True) == JobPlan(Step.NOTHING)
    assert decide(running=batch_job(), suspend=True) == JobPlan(Step.SUSPEND)
    assert decide(running=batch_job(suspend=True), suspend=True) == JobPlan(Step.NOTHING)
    assert decide(running=batch_job(suspend=True)) == JobPlan(Step.RESUME)
    assert decide(unready("Starting"), batch_job(suspend=True)).step is Step.WAIT


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_cluster_of_a_job_that_has_ended_is_deleted(kind: str) -> None:
    assert decide(running=batch_job(kind)) == JobPlan(Step.NOTHING, delete_cluster=True)


@pytest.mark.parametrize("kind", ["Succeeded", "Failed"])
@pytest.mark.parametrize("suspend", [True, False])
def test_job_that_has_ended_never_runs_again(kind: str, suspend: bool) -> None:
    obj = shown(job(), {"type": kind, "status": "True"})
    # Even if somebody deleted its batch Job.
    assert decide(obj=obj, suspend=suspend) == JobPlan(Step.NOTHING, delete_cluster=True)


def status(
    running: Object | None = None, obj: Object | None = None, **changes: Any
) -> tuple[Object, dict[str, Object]]:
    seen = {"suspend": False, "pods": (), "sharding": NO_SHARDING, **changes}
    result = job_status(obj or shown(job()), JobView("c", batch_job=running, **seen), NOW)
    GTJobStatus.model_validate(result)
    return result, {condition["type"]: condition for condition in result["conditions"]}


def test_waiting_job_says_for_what() -> None:
    result, conditions = status(waits_for=Blocker("ClusterNotFound", "there is none"))
    assert (result["state"], result["reason"], result["cluster"]) == ("Waiting", "ClusterNotFound", "c")
    assert conditions["Running"]["status"] == "False"
    assert conditions["Running"]["message"] == "there is none"


def test_running_job() -> None:
    result, conditions = status(batch_job(ready=1, startTime="2026-01-01T11:00:00Z"))
    assert result["state"] == "Running"
    assert result["startTime"] == "2026-01-01T11:00:00Z"
    assert conditions["Running"]["status"] == "True"


def test_job_whose_pod_has_just_succeeded_still_runs() -> None:
    pod = client_pod("Succeeded", {"terminated": {"exitCode": 0}})
    assert status(batch_job(ready=0), pods=(pod,))[0]["state"] == "Running"


def client_pod(phase: str, state: Object) -> Object:
    container = {"name": "client", "image": "x", "state": state}
    return {"metadata": {"name": "p"}, "status": {"phase": phase, "containerStatuses": [container]}}


def test_job_whose_pod_is_blocked_says_why() -> None:
    pod = client_pod("Pending", {"waiting": {"reason": "ErrImagePull"}})
    assert status(batch_job(), pods=(pod,))[0]["reason"] == "ImagePullBackOff"


def test_succeeded_job() -> None:
    result, conditions = status(batch_job("Complete", completionTime="2026-01-01T11:30:00Z"))
    assert (result["state"], result["completionTime"]) == ("Succeeded", "2026-01-01T11:30:00Z")
    assert conditions["Succeeded"]["status"] == "True"
    assert conditions["Failed"]["status"] == "False"


def test_failed_job_tells_how_its_pod_ended() -> None:
    pod = client_pod("Failed", {"terminated": {"exitCode": 4, "message": "oh dear"}})
    result, conditions = status(batch_job("Failed"), pods=(pod,))
    assert result["state"] == "Failed"
    assert conditions["Failed"]["reason"] == "FailedReason"
    assert "oh dear" in conditions["Failed"]["message"]


@pytest.mark.parametrize("kind", ["Succeeded", "Failed"])
def test_what_was_reached_is_never_taken_back(kind: str) -> None:
    obj = shown(job(), {"type": kind, "status": "True"}, state=kind)
    for running in (None, batch_job(ready=1), batch_job("Failed"), batch_job("Complete")):
        assert job_status(obj, JobView("c", True, running, (), WRONG), NOW + timedelta(days=1)) == obj["status"]


def test_suspended_job() -> None:
    result, conditions = status(batch_job(suspend=True), suspend=True)
    assert result["state"] == "Suspended"
    assert conditions["Suspended"]["status"] == "True"
