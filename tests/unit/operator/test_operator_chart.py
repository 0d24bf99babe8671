"""The chart, and the manifest rendered from it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
MANIFEST = ROOT / "deploy" / "gt.yaml"
HELM = shutil.which("helm") or shutil.which(str(Path.home() / ".cache/gt-localkube/bin/helm"))
VERSION = "--kube-version=1.30.0"

needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")


def documents() -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(MANIFEST.read_text("utf-8")) if each]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in documents() if each["kind"] == kind]


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    command = [HELM, "template", "gt", str(ROOT / "charts" / "gt"), "--namespace=gt-system", VERSION, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@needs_helm
def test_manifest_is_up_to_date(tmp_path: Path) -> None:
    rendered = tmp_path / "gt.yaml"
    env = {**os.environ, "HELM": HELM or ""}
    subprocess.run([ROOT / "deploy" / "render", rendered], check=True, env=env, timeout=60)
    assert rendered.read_text("utf-8") == MANIFEST.read_text("utf-8"), "run deploy/render"


@needs_helm
@pytest.mark.parametrize(
    "value",
    ["replicas=-1", "podOverlay.containers=x", "unknown=1", "image.pullPolicy=Often", "watchNamespaces={A}"],
)
def test_wrong_values_are_refused(value: str) -> None:
    done = template("--set", value)
    assert done.returncode != 0
    assert "schema" in done.stderr


@needs_helm
def test_watched_namespaces_get_roles_and_the_cluster_gets_none() -> None:
    rendered = [each for each in yaml.safe_load_all(template("--set", "watchNamespaces={a,b}").stdout) if each]
    roles = [each for each in rendered if each["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["a", "b"]
    assert all(role["rules"] == roles_of_the_manifest()["gt-operator"] for role in roles)
    wide = [each["metadata"]["name"] for each in rendered if each["kind"] == "ClusterRole"]
    # Those are for people.
    assert wide == ["gt-operator-edit", "gt-operator-view"]
    assert not [each for each in rendered if each["kind"] == "ClusterRoleBinding"]
    (deployment,) = [each for each in rendered if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["--namespace=a", "--namespace=b"]
    (lease,) = [each for each in rendered if each["kind"] == "Lease"]
    assert lease["metadata"]["namespace"] == "a"


@needs_helm
def test_crds_stay_if_asked_to() -> None:
    rendered = [each for each in yaml.safe_load_all(template("--set", "crds.keep=true").stdout) if each]
    crds = [each for each in rendered if each["kind"] == "CustomResourceDefinition"]
    assert len(crds) == 2
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in crds} == {"keep"}


def roles_of_the_manifest() -> dict[str, list[dict[str, Any]]]:
    return {role["metadata"]["name"]: role["rules"] for role in of_kind("ClusterRole")}


def test_crds_of_the_manifest_are_those_of_the_models() -> None:
    for crd in of_kind("CustomResourceDefinition"):
        source = yaml.safe_load((ROOT / "crds" / f"{crd['spec']['names']['plural']}.yaml").read_text("utf-8"))
        assert crd["spec"] == source["spec"]


def test_operator_gets_no_right_that_reaches_further() -> None:
    rules = roles_of_the_manifest()["gt-operator"]
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"impersonate", "escalate", "bind", "deletecollection"} & set(rule["verbs"])
        assert not {"nodes", "pods/exec", "roles", "clusterroles"} & set(rule["resources"])
    (secrets,) = [rule for rule in rules if "secrets" in rule["resources"]]
    assert not {"list", "watch", "delete"} & set(secrets["verbs"])
    (leases,) = [rule for rule in rules if "leases" in rule["resources"]]
    assert leases["resourceNames"] == ["gt-operator"]


def test_operator_keeps_to_the_restricted_level() -> None:
    (deployment,) = of_kind("Deployment")
    spec = deployment["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
