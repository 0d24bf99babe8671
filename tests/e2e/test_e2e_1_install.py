"""The chart installs, and the API server checks GT's objects by itself."""

from __future__ import annotations

import pytest

from tests.e2e.localkube.shell import CommandError
from tests.e2e.support import resources
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release

pytestmark = pytest.mark.e2e


def test_operator_runs(release: Release, kubectl: Kubectl) -> None:
    for crd in ("gtclusters.gt.dev", "gtjobs.gt.dev"):
        kubectl("wait", f"crd/{crd}", "--for=condition=Established", "--timeout=10s")
    deployments = kubectl.items("deployments", release.namespace)
    assert [item["status"].get("readyReplicas") for item in deployments] == [1]


def test_operator_has_no_right_to_read_nodes_secrets_of_others(release: Release, kubectl: Kubectl) -> None:
    (deployment,) = kubectl.items("deployments", release.namespace)
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    user = f"--as=system:serviceaccount:{release.namespace}:{account}"
    assert kubectl("auth", "can-i", "create", "pods", user, check=False).strip() == "yes"
    for verb, kind in (("create", "clusterroles"), ("delete", "nodes"), ("create", "pods/exec")):
        assert kubectl("auth", "can-i", verb, kind, user, check=False).strip() == "no"


def test_api_server_refuses_a_job_with_two_kinds_of_cluster(namespace: str, kubectl: Kubectl) -> None:
    template = {"spec": resources.cluster("own")["spec"]}
    both = resources.job("both", "some", "true", clusterTemplate=template)
    with pytest.raises(CommandError, match="clusterTemplate"):
        kubectl.apply(both, namespace=namespace)
