"""What keeps a pod, a Deployment or a write from going on, in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gt_operator.errors import ApiRefused
from gt_operator.objects import Object, condition_of, is_going, name_of

ADMISSION_REFUSED: Final = "AdmissionRefused"
CRASH_LOOP: Final = "CrashLoopBackOff"
FORBIDDEN: Final = "Forbidden"
IMAGE_PULL: Final = "ImagePullBackOff"
INVALID: Final = "TemplateInvalid"
NAME_TAKEN: Final = "NameTaken"
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
OUT_OF_MEMORY: Final = "OOMKilled"
POD_FAILED: Final = "PodFailed"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
UNSCHEDULABLE: Final = "Unschedulable"

MESSAGE_LIMIT: Final = 1024

# Kubernetes alternates between these while a node goes on trying; one word keeps the condition still.
_PULL_REASONS = frozenset({"ErrImagePull", IMAGE_PULL, "RegistryUnavailable", "ErrRegistryUnavailable"})
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
# Waiting for the device that a pod just deleted still holds is no blocker, so others come first.
_WEIGHT = {UNSCHEDULABLE: 1}


@dataclass(frozen=True)
class Blocker:
    """What keeps something from going on.

    Attributes:
        reason: One word, for a condition's reason.
        message: The object concerned and the text that Kubernetes gave.
    """

    reason: str
    message: str

    def __post_init__(self) -> None:
        if len(self.message) > MESSAGE_LIMIT:
            object.__setattr__(self, "message", self.message[: MESSAGE_LIMIT - 3] + "...")


def of_pods(pods: Iterable[Object]) -> Blocker | None:
    """What blocks the first of these pods that is blocked, or None."""
    found = [blocker for pod in pods if not is_going(pod) and (blocker := of_pod(pod)) is not None]
    return min(found, key=lambda blocker: _WEIGHT.get(blocker.reason, 0), default=None)


def of_pod(pod: Object) -> Blocker | None:
    """What blocks a pod, or None."""
    status = pod.get("status") or {}
    found = _of_containers(pod)
    if status.get("phase") == "Failed":
        # It will not be restarted, so this is no loop.
        reason = found.reason if found is not None and found.reason != CRASH_LOOP else POD_FAILED
        message = found.message if found is not None else f"pod {name_of(pod)}: {status.get('message') or 'it failed'}"
        return Blocker(status.get("reason") or reason, message)
    if found is not None:
        return found
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return Blocker(scheduled.get("reason") or UNSCHEDULABLE, f"pod {name_of(pod)}: {scheduled.get('message', '')}")
    return None


def of_deployment(deployment: Object) -> Blocker | None:
    """What keeps a Deployment from making its pods, or None."""
    failure = condition_of(deployment, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    message = failure.get("message", "")
    reason = _reason_of_refusal(message) or failure.get("reason") or "ReplicaFailure"
    return Blocker(reason, f"deployment {name_of(deployment)}: {message}")


def of_batch_job(job: Object) -> Blocker | None:
    """What made a batch Job fail, or None."""
    failure = condition_of(job, "Failed")
    if failure.get("status") != "True":
        return None
    return Blocker(failure.get("reason") or "Failed", f"job {name_of(job)}: {failure.get('message', '')}")


def of_refusal(error: ApiRefused, what: str) -> Blocker:
    """What an answer of the API server means.

    Args:
        error: The answer.
        what: What was to be written, such as `pod a`.
    """
    message = f"{what}: {error}"
    if error.namespace_is_going:
        return Blocker(NAMESPACE_TERMINATING, message)
    if error.status == 403:
        return Blocker(_reason_of_refusal(str(error)) or FORBIDDEN, message)
    if error.status in (400, 422):
        return Blocker(INVALID, message)
    return Blocker(error.reason or f"HTTP{error.status}", message)


def _reason_of_refusal(message: str) -> str | None:
    if "exceeded quota" in message or "failed quota" in message:
        return QUOTA_EXCEEDED
    if "violates PodSecurity" in message or "admission webhook" in message or "denied request" in message:
        return ADMISSION_REFUSED
    return None


def _of_containers(pod: Object) -> Blocker | None:
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        found = _of_container(container)
        if found is not None:
            reason, message = found
            return Blocker(reason, f"pod {name_of(pod)}: container {container['name']}: {message}")
    return None


def _of_container(container: Object) -> tuple[str, str] | None:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    reason = waiting.get("reason") or ""
    if reason in _PULL_REASONS:
        return IMAGE_PULL, f"image {container.get('image', '')}: {waiting.get('message') or reason}"
    if reason not in _STARTING and reason != CRASH_LOOP:
        return reason, waiting.get("message") or reason
    # A container that runs again may have recovered; it counts as blocked until it is ready.
    if ended and not container.get("ready") and _went_wrong(ended):
        return _how_it_ended(ended, container.get("restartCount", 0))
    return None


def _went_wrong(ended: Object) -> bool:
    return bool(ended.get("exitCode")) or ended.get("reason") == OUT_OF_MEMORY


def _how_it_ended(ended: Object, restarts: int) -> tuple[str, str]:
    if ended.get("reason") == OUT_OF_MEMORY:
        return OUT_OF_MEMORY, f"it used more memory than its limit, and was restarted {restarts} times"
    log = " ".join((ended.get("message") or "").split())
    # The end of the log says most.
    tail = f": {log[-MESSAGE_LIMIT // 2 :]}" if log else ""
    return CRASH_LOOP, f"it ended with exit code {ended.get('exitCode')}, and was restarted {restarts} times{tail}"
