"""What a node says about a pod that waits and shows no reason itself: missing volumes, and registries that are slow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gt_operator.kube.client import KubeClient
from gt_operator.objects import Object, is_going, name_of, namespace_of, uid_of
from gt_operator.observe.blockers import Blocker
from gt_operator.observe.pods import age

SILENT_AFTER = 5.0
"""Seconds after which a pod that waits without a reason is asked about."""
ASK_AGAIN = 5.0
"""Seconds between questions about pods of one cluster."""

_WAITING = frozenset({"ContainerCreating", "PodInitializing"})


def waits_silently(pod: Object) -> bool:
    """Whether a pod has a node but no container yet, and doesn't say why."""
    status = pod.get("status") or {}
    if is_going(pod) or status.get("phase") != "Pending":
        return False
    containers = status.get("containerStatuses") or ()
    reasons = {((container.get("state") or {}).get("waiting") or {}).get("reason") for container in containers}
    return bool(reasons) and reasons <= _WAITING


async def find_hint(client: KubeClient, pods: Iterable[Object], now: datetime) -> tuple[Blocker | None, float | None]:
    """Asks about the oldest pod that waits silently.

    Returns:
        What blocks it, if that is known; and the seconds after which to ask again, None if no pod waits silently.

    Raises:
        KubeError: The call failed.
    """
    silent = sorted((pod for pod in pods if waits_silently(pod)), key=lambda pod: -age(pod, now))
    if not silent:
        return None, None
    pod = silent[0]
    wait = SILENT_AFTER - age(pod, now)
    if wait > 0:
        return None, wait
    events, _ = await client.list("Event", namespace_of(pod), fields=f"involvedObject.uid={uid_of(pod)}")
    return _from_events(pod, events), ASK_AGAIN


def _from_events(pod: Object, events: list[Object]) -> Blocker | None:
    newest_first = sorted(events, key=lambda event: event.get("lastTimestamp") or "", reverse=True)
    for event in newest_first:
        if event.get("type") == "Warning":
            return Blocker(event.get("reason") or "Unknown", f"pod {name_of(pod)}: {event.get('message', '')}")
    for event in newest_first:
        if event.get("reason") == "Pulling":
            since = event.get("firstTimestamp") or "a while"
            return Blocker("PullingImage", f"pod {name_of(pod)}: {event.get('message', '')} since {since}")
    return None
