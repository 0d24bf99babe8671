"""The status of a GTJob."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gt_operator.objects import Object, condition_of
from gt_operator.observe import blockers
from gt_operator.observe.blockers import Blocker
from gt_operator.observe.conditions import Finding, conditions, holds
from gt_operator.observe.pods import format_time
from gt_operator.observe.sharding import Verdict


@dataclass(frozen=True)
class JobView:
    """What is known about a job.

    Attributes:
        cluster: Name of the cluster that it runs on.
        suspend: Whether the user wants it stopped.
        batch_job: The batch Job, if it exists.
        pods: Its pods.
        sharding: What is to be said about its sharding file.
        waits_for: What it waits for before its batch Job is made, or None.
        refused: What the API server refused, in the order of the attempts.
    """

    cluster: str
    suspend: bool
    batch_job: Object | None
    pods: tuple[Object, ...]
    sharding: Verdict
    waits_for: Blocker | None = None
    refused: tuple[Blocker, ...] = ()


def job_status(obj: Object, view: JobView, now: datetime) -> dict[str, Any]:
    """Returns the status of a job. That it has succeeded or failed is never taken back."""
    old = obj.get("status") or {}
    if holds(obj, "Succeeded") or holds(obj, "Failed"):
        return dict(old)
    state, running = _state(view)
    status = {
        "observedGeneration": obj["metadata"].get("generation", 0),
        "state": state,
        "cluster": view.cluster,
        "reason": running.reason,
        "conditions": conditions(_findings(view, state, running), obj, now),
    }
    started = old.get("startTime") or (view.batch_job or {}).get("status", {}).get("startTime")
    if started:
        status["startTime"] = started
    if state in ("Succeeded", "Failed"):
        ended = (view.batch_job or {}).get("status", {}).get("completionTime")
        status["completionTime"] = ended or format_time(now)
    return status


def _findings(view: JobView, state: str, running: Finding) -> Iterable[Finding]:
    yield running
    for kind in ("Succeeded", "Failed"):
        reached = state == kind
        yield Finding(kind, reached, running.reason if reached else "NotEnded", running.message if reached else "")
    suspended = state == "Suspended"
    yield Finding("Suspended", suspended, "Suspended" if suspended else "NotSuspended", "")
    yield Finding("ShardingValid", view.sharding.valid, view.sharding.reason, view.sharding.message)


def _state(view: JobView) -> tuple[str, Finding]:
    job = view.batch_job
    if job is not None and holds(job, "Complete"):
        return "Succeeded", Finding("Running", False, "Completed", condition_of(job, "Complete").get("message", ""))
    failure = None if job is None else blockers.of_batch_job(job)
    if failure is not None:
        why = blockers.of_pods(view.pods)
        message = failure.message if why is None else f"{failure.message}; {why.message}"
        return "Failed", Finding("Running", False, failure.reason, message)
    if view.suspend:
        return "Suspended", Finding("Running", False, "Suspended", "spec.suspend is true")
    blocker = view.waits_for or (view.refused[0] if view.refused else None)
    if blocker is None and _is_running(job, view.pods):
        return "Running", Finding("Running", True, "Running", "the client's pod runs")
    blocker = blocker or blockers.of_pods(view.pods) or Blocker("Starting", "the client's pod starts")
    return "Waiting", Finding("Running", False, blocker.reason, blocker.message)


def _is_running(job: Object | None, pods: tuple[Object, ...]) -> bool:
    if job is None:
        return False
    # Between the end of a pod and that of its batch Job, the job neither starts nor waits.
    succeeded = any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)
    return succeeded or bool((job.get("status") or {}).get("ready"))
