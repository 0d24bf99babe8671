"""What blocks a pod, a Deployment or a write."""

from __future__ import annotations

from typing import Any

import pytest

from gt_operator.errors import ApiRefused
from gt_operator.observe import blockers
from tests.support.operator_objects import Object, waiting


def pod(status: Object, name: str = "p") -> Object:
    return {"metadata": {"name": name, "uid": name}, "status": status}


def ended(**fields: Any) -> Object:
    return {"terminated": {"exitCode": 1, "reason": "Error", **fields}}


def container(**fields: Any) -> Object:
    return {"phase": "Running", "containerStatuses": [{"name": "worker", "ready": False, **fields}]}


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "Insufficient nvidia.com/gpu",
        }
    ],
}

CASES = [
    (waiting("ErrImagePull", "not found", image="x:1"), "ImagePullBackOff", "image x:1: not found"),
    (waiting("ImagePullBackOff", "Back-off pulling", image="x:1"), "ImagePullBackOff", "image x:1: Back-off pulling"),
    (waiting("ErrImageNeverPull", "is not present"), "ErrImageNeverPull", "is not present"),
    (
        waiting("CreateContainerConfigError", 'secret "x" not found'),
        "CreateContainerConfigError",
        'secret "x" not found',
    ),
    (waiting("ContainerCreating"), None, ""),
    (UNSCHEDULABLE, "Unschedulable", "Insufficient nvidia.com/gpu"),
    (container(state=ended(exitCode=3, message="no\n device")), "CrashLoopBackOff", "exit code 3, and was restarted 0"),
    (container(state=ended(message="no\n device")), "CrashLoopBackOff", ": no device"),
    (container(state={"running": {}}, lastState=ended(), restartCount=2), "CrashLoopBackOff", "restarted 2 times"),
    (container(state={"running": {}}, lastState=ended(reason="OOMKilled")), "OOMKilled", "more memory than its limit"),
    (
        container(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended()),
        "CrashLoopBackOff",
        "exit code 1",
    ),
    (container(state={"running": {}}, lastState=ended(), ready=True), None, ""),
    (container(state={"running": {}}, lastState=ended(exitCode=0)), None, ""),
    (container(state={"running": {}}), None, ""),
    ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}, "Evicted", "low on memory"),
    ({"phase": "Failed"}, "PodFailed", "it failed"),
    ({**container(state=ended(exitCode=4, message="oh dear")), "phase": "Failed"}, "PodFailed", "exit code 4"),
    ({}, None, ""),
]


@pytest.mark.parametrize(("status", "reason", "text"), CASES)
def test_pod(status: Object, reason: str | None, text: str) -> None:
    found = blockers.of_pod(pod(status))
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert found.reason == reason
        assert "pod p: " in found.message
        assert text in found.message


def test_pod_that_goes_blocks_nothing() -> None:
    going = pod(UNSCHEDULABLE)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert blockers.of_pods([going]) is None


def test_waiting_for_a_device_comes_last() -> None:
    found = blockers.of_pods([pod(UNSCHEDULABLE, "a"), pod(waiting("ErrImagePull"), "b")])
    assert found is not None
    assert found.reason == "ImagePullBackOff"


def test_message_is_bounded_and_keeps_the_end_of_the_log() -> None:
    found = blockers.of_pod(pod(container(state=ended(message="x" * 5000 + " at last"))))
    assert found is not None
    assert len(found.message) <= blockers.MESSAGE_LIMIT
    assert found.message.endswith("at last")
    assert len(blockers.Blocker("A", "x" * 5000).message) == blockers.MESSAGE_LIMIT


@pytest.mark.parametrize(
    ("status", "message", "causes", "reason"),
    [
        (403, 'pods "a" is forbidden: exceeded quota: q, requested: pods=1', (), "QuotaExceeded"),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest": x', (), "AdmissionRefused"),
        (403, 'admission webhook "x" denied the request: no', (), "AdmissionRefused"),
        (403, 'User "gt" cannot create resource "pods"', (), "Forbidden"),
        (403, "namespace x is being terminated", ("NamespaceTerminating",), "NamespaceTerminating"),
        (422, 'Pod "a" is invalid: spec.x: Required value', (), "TemplateInvalid"),
        (400, "Pod in version v1 cannot be handled as a Pod", (), "TemplateInvalid"),
        (409, "conflict", (), "Conflict"),
        (500, "broken", (), "HTTP500"),
    ],
)
def test_refusal(status: int, message: str, causes: tuple[str, ...], reason: str) -> None:
    word = {409: "Conflict"}.get(status, "")
    found = blockers.of_refusal(ApiRefused(status, word, message, causes), "pod a")
    assert found == blockers.Blocker(reason, f"pod a: {message}")


@pytest.mark.parametrize(
    ("message", "reason"), [("exceeded quota: q", "QuotaExceeded"), ("something else", "FailedCreate")]
)
def test_deployment(message: str, reason: str) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    found = blockers.of_deployment({"metadata": {"name": "d"}, "status": {"conditions": [failure]}})
    assert found == blockers.Blocker(reason, f"deployment d: {message}")
    assert blockers.of_deployment({"metadata": {"name": "d"}}) is None
