"""Questions about pods and Deployments."""

from __future__ import annotations

from datetime import UTC, datetime

from gt_operator.objects import Object, condition_of, is_going
from gt_protocol.resources.constants import COMPONENT_LABEL


def has_component(pod: Object, component: str) -> bool:
    """Whether a pod belongs to a component."""
    return bool(pod["metadata"].get("labels", {}).get(COMPONENT_LABEL) == component)


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready and not being deleted."""
    return not is_going(pod) and condition_of(pod, "Ready").get("status") == "True"


def has_ended(pod: Object) -> bool:
    """Whether a pod has ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def age(obj: Object, now: datetime) -> float:
    """Seconds since an object was made."""
    made = obj["metadata"].get("creationTimestamp")
    return 0.0 if made is None else (now - parse_time(made)).total_seconds()


def parse_time(text: str) -> datetime:
    """Reads a time of the API server."""
    return datetime.fromisoformat(text).astimezone(UTC)


def format_time(when: datetime) -> str:
    """Writes a time for the API server, which keeps whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_available(deployment: Object | None) -> bool:
    """Whether a Deployment runs what its specification says."""
    if deployment is None:
        return False
    status = deployment.get("status") or {}
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    wanted = deployment["spec"].get("replicas", 1)
    return bool(seen and status.get("updatedReplicas", 0) == wanted == status.get("availableReplicas", 0))
