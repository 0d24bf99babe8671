"""A cluster that loses a worker gets another one and is Ready again."""

from __future__ import annotations

from tests.e2e.support import resources
from tests.e2e.support.kubectl import Kubectl, Object, condition

NAME = "healing"
WORKERS = 2
READY_TIMEOUT = 90.0


def running_workers(pods: dict[str, Object]) -> set[str]:
    """Return the names of the worker pods that are ready and not being deleted."""
    return {
        name
        for name, pod in pods.items()
        if pod["metadata"]["labels"].get("gt.dev/component") == "worker"
        and "deletionTimestamp" not in pod["metadata"]
        and condition(pod, "Ready").get("status") == "True"
    }


def test_deleted_worker_is_replaced(namespace: str, kubectl: Kubectl) -> None:
    kubectl.apply(resources.cluster(NAME, replicas=WORKERS), namespace=namespace)
    kubectl.wait("gtcluster", NAME, namespace, "condition=Ready", READY_TIMEOUT)
    pods = kubectl.items("pods", namespace, f"gt.dev/cluster={NAME}")
    before = running_workers({pod["metadata"]["name"]: pod for pod in pods})
    assert len(before) == WORKERS

    lost = min(before)
    kubectl("delete", "pod", lost, f"--namespace={namespace}", "--wait=false")
    kubectl.wait("gtcluster", NAME, namespace, "condition=Ready=false", 10)
    kubectl.wait("gtcluster", NAME, namespace, "condition=Ready", READY_TIMEOUT)

    pods = kubectl.items("pods", namespace, f"gt.dev/cluster={NAME}")
    after = running_workers({pod["metadata"]["name"]: pod for pod in pods})
    assert len(after) == WORKERS
    assert lost not in after
