"""Whatever was made goes away with what asked for it, and nothing is left after GT is uninstalled."""

from __future__ import annotations

from tests.e2e.support import resources
from tests.e2e.support.image import ROOT
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release

# Every kind that GT makes objects of, but not what Kubernetes itself puts into each namespace.
KINDS = (
    "pods,jobs,deployments,replicasets,services,secrets,configmaps,serviceaccounts,persistentvolumeclaims,"
    "networkpolicies,poddisruptionbudgets,roles,rolebindings,leases"
)
OF_KUBERNETES = {"ConfigMap/kube-root-ca.crt", "ServiceAccount/default", "Service/kubernetes"}
TIMEOUT = 60.0


def remaining(kubectl: Kubectl, namespace: str) -> set[str]:
    found = {f"{item['kind']}/{item['metadata']['name']}" for item in kubectl.items(KINDS, namespace)}
    return found - OF_KUBERNETES


def assert_empties(kubectl: Kubectl, namespace: str) -> None:
    """Wait until all objects in a namespace have gone, and check that none came after them."""
    leaving = remaining(kubectl, namespace)
    if leaving:
        kubectl(
            "wait",
            *leaving,
            "--for=delete",
            f"--namespace={namespace}",
            f"--timeout={TIMEOUT:.0f}s",
            timeout=TIMEOUT + 10,
        )
    assert remaining(kubectl, namespace) == set()


def test_deleted_example_leaves_nothing(release: Release, kubectl: Kubectl) -> None:
    kubectl("delete", "--filename", str(ROOT / "examples" / "digits" / "gtjob.yaml"), "--ignore-not-found")
    assert_empties(kubectl, "default")


def test_deleted_clusters_leave_nothing(namespace: str, kubectl: Kubectl) -> None:
    kubectl("delete", "gtjobs,gtclusters", "--all", f"--namespace={namespace}")
    kubectl("delete", "configmaps", "--all", f"--namespace={namespace}")
    assert_empties(kubectl, namespace)


def test_uninstalled_operator_leaves_nothing(release: Release, namespace: str, kubectl: Kubectl) -> None:
    # A cluster that still exists when its operator goes: the usual mistake, and it must not hang.
    kubectl.apply(resources.cluster("orphan"), namespace=namespace)
    kubectl.wait("gtcluster", "orphan", namespace, "jsonpath={.status.conditions}", TIMEOUT)

    release.uninstall()

    assert_empties(kubectl, namespace)
    kinds = "customresourcedefinitions,clusterroles,clusterrolebindings"
    cluster_wide = kubectl("get", kinds, "--output=name").split()
    assert [name for name in cluster_wide if name.endswith(".gt.dev") or "/gt" in name] == []
    namespaces = kubectl("get", "namespaces", "--output=name").split()
    assert f"namespace/{release.namespace}" not in namespaces
    kubectl("delete", "namespace", namespace, f"--timeout={TIMEOUT:.0f}s", timeout=TIMEOUT + 10)
