"""The status of a GTCluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gt_operator.builders.names import client_address
from gt_operator.objects import HASH_ANNOTATION, Object, annotation_of, label_of, name_of, namespace_of
from gt_operator.observe import blockers
from gt_operator.observe.blockers import Blocker
from gt_operator.observe.conditions import Finding, conditions, holds
from gt_operator.observe.pods import has_component, is_available, is_ready
from gt_operator.observe.sharding import Verdict
from gt_protocol.resources.constants import DISPATCHER, WORKER, WORKER_INDEX_LABEL


@dataclass(frozen=True)
class ClusterView:
    """What is known about a cluster.

    Attributes:
        size: Number of workers asked for.
        hashes: Digests of the workers that should run, by index; None if the specification can't be used.
        suspended: Whether it is stopped by the user.
        pods: All its pods.
        deployment: The dispatcher's Deployment, if it exists.
        sharding: What is to be said about its sharding file.
        refused: What the API server refused, in the order of the attempts.
        hint: What blocks a pod that shows no reason itself, or None.
    """

    size: int
    hashes: dict[int, str]
    suspended: bool
    pods: tuple[Object, ...]
    deployment: Object | None
    sharding: Verdict
    refused: tuple[Blocker, ...] = ()
    hint: Blocker | None = None


def cluster_status(obj: Object, view: ClusterView, now: datetime) -> dict[str, Any]:
    """Returns the status of a cluster."""
    accepted = ready_workers(view)
    ready = _ready(view, accepted)
    generation = obj["metadata"].get("generation", 0)
    return {
        "observedGeneration": generation,
        "ready": f"{accepted}/{view.size}",
        "workers": view.size,
        "readyWorkers": accepted,
        "address": client_address(name_of(obj), namespace_of(obj)),
        "reason": ready.reason,
        "conditions": conditions(_findings(obj, view, ready), obj, now),
    }


def ready_workers(view: ClusterView) -> int:
    """Returns how many workers the dispatcher has accepted."""
    found = {
        index
        for pod in view.pods
        if has_component(pod, WORKER) and is_ready(pod) and (index := label_of(pod, WORKER_INDEX_LABEL)).isdigit()
        # A pod of an older specification is on its way out.
        if view.hashes.get(int(index)) == annotation_of(pod, HASH_ANNOTATION)
    }
    return len(found)


def _findings(obj: Object, view: ClusterView, ready: Finding) -> Iterable[Finding]:
    was_ready = holds(obj, "Ready") and (obj.get("status") or {}).get("observedGeneration") == obj["metadata"].get(
        "generation"
    )
    degraded = not ready.holds and not view.suspended and (was_ready or holds(obj, "Degraded"))
    progressing = not ready.holds and not view.suspended
    yield ready
    yield Finding("Progressing", progressing, ready.reason, ready.message)
    yield Finding("Degraded", degraded, ready.reason if degraded else "NothingLost", ready.message if degraded else "")
    yield Finding("ShardingValid", view.sharding.valid, view.sharding.reason, view.sharding.message)
    yield _suspended(view)


def _suspended(view: ClusterView) -> Finding:
    if view.suspended:
        return Finding("Suspended", True, "Suspended", "spec.suspend is true")
    return Finding("Suspended", False, "NotSuspended", "")


def _ready(view: ClusterView, accepted: int) -> Finding:
    count = f"{accepted} of {view.size} workers are ready"
    if view.suspended:
        return Finding("Ready", False, "Suspended", "spec.suspend is true")
    # A pod that was refused in between doesn't matter once all are there.
    if accepted == view.size and is_available(view.deployment):
        return Finding("Ready", True, "AllWorkersReady", count)
    blocker = _blocker(view)
    if blocker is not None:
        return Finding("Ready", False, blocker.reason, blocker.message)
    return Finding("Ready", False, "Starting", count if accepted < view.size else f"{count}, but not the dispatcher")


def _blocker(view: ClusterView) -> Blocker | None:
    if not view.sharding.valid:
        return Blocker(view.sharding.reason, view.sharding.message)
    if view.refused:
        return view.refused[0]
    # Workers wait for the dispatcher, so what blocks it comes first.
    for component in (DISPATCHER, WORKER):
        found = blockers.of_pods(pod for pod in view.pods if has_component(pod, component))
        if found is not None:
            return found
    failure = None if view.deployment is None else blockers.of_deployment(view.deployment)
    return failure or view.hint
