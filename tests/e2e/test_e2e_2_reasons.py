"""What keeps a cluster from being ready is named in its condition within ten seconds."""

from __future__ import annotations

from typing import Any

from tests.e2e.support import resources
from tests.e2e.support.kubectl import Kubectl, condition

LIMIT = 10.0


def ready_reason(kubectl: Kubectl, name: str, namespace: str, reason: str, kind: str = "Ready") -> str:
    """Wait until a condition names ``reason``, and return its message."""
    wanted = f'jsonpath={{.status.conditions[?(@.type=="{kind}")].reason}}={reason}'
    kubectl.wait("gtcluster", name, namespace, wanted, LIMIT)
    found = condition(kubectl.get("gtcluster", name, namespace), kind)
    assert found["status"] == "False"
    return str(found["message"])


def workers(device: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "group", "replicas": 1, "device": device}]


def test_image_that_can_not_be_pulled(namespace: str, kubectl: Kubectl) -> None:
    # Nothing listens there, so the answer is a refusal at once, without any network.
    kubectl.apply(resources.cluster("bad-image", image="localhost:1/gt:missing"), namespace=namespace)
    assert "localhost:1/gt:missing" in ready_reason(kubectl, "bad-image", namespace, "ImagePullBackOff")


def test_device_that_no_node_has(namespace: str, kubectl: Kubectl) -> None:
    kubectl.apply(resources.cluster("no-gpu", workerGroups=workers({"vendor": "nvidia"})), namespace=namespace)
    assert "nvidia.com/gpu" in ready_reason(kubectl, "no-gpu", namespace, "Unschedulable")


def test_sharding_file_with_an_error(namespace: str, kubectl: Kubectl) -> None:
    kubectl.apply(
        resources.config_map("bad-sharding", "sharding.yaml", "version: 1\nsignals: [unfinished\n"),
        resources.cluster("bad-sharding", sharding={"configMapRef": {"name": "bad-sharding", "key": "sharding.yaml"}}),
        namespace=namespace,
    )
    ready_reason(kubectl, "bad-sharding", namespace, "ShardingInvalid", kind="ShardingValid")
    ready_reason(kubectl, "bad-sharding", namespace, "ShardingInvalid")


def test_quota_that_is_used_up(namespace: str, kubectl: Kubectl) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    }
    full = f"{namespace}-full"
    kubectl("create", "namespace", full)
    kubectl.apply(quota, namespace=full)
    kubectl.apply(resources.cluster("refused"), namespace=full)
    assert "quota" in ready_reason(kubectl, "refused", full, "QuotaExceeded")
    kubectl("delete", "namespace", full, "--timeout=60s", timeout=70)
