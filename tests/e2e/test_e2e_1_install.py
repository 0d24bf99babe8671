"""The chart installs, and the API server checks GT's objects by itself."""

from __future__ import annotations

import pytest

from tests.e2e.localkube.shell import CommandError
from tests.e2e.support import resources
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release


def test_operator_runs(release: Release, kubectl: Kubectl) -> None:
    for crd in ("gtclusters.gt.dev", "gtjobs.gt.dev"):
        kubectl("wait", f"crd/{crd}", "--for=condition=Established", "--timeout=10s")
    deployments = kubectl.items("deployments", release.namespace)
    assert [item["status"].get("readyReplicas") for item in deployments] == [1]


def test_operator_has_only_the_rights_it_needs(release: Release, kubectl: Kubectl) -> None:
    (deployment,) = kubectl.items("deployments", release.namespace)
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]

    def may(*what: str) -> bool:
        user = f"--as=system:serviceaccount:{release.namespace}:{account}"
        return kubectl("auth", "can-i", *what, user, "--namespace=default", check=False).strip() == "yes"

    assert may("create", "pods")
    assert not may("create", "pods", "--subresource=exec")
    assert not may("list", "secrets")
    assert not may("create", "clusterroles")
    assert not may("delete", "nodes")


def test_api_server_refuses_a_job_with_two_kinds_of_cluster(namespace: str, kubectl: Kubectl) -> None:
    template = {"spec": resources.cluster("own")["spec"]}
    both = resources.job("both", "some", "true", clusterTemplate=template)
    with pytest.raises(CommandError, match="clusterTemplate"):
        kubectl.apply(both, namespace=namespace)
