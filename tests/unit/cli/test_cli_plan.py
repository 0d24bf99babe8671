"""What `gt run` makes of a job: references, command, environment, and what only a cluster can do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gt_cli.errors import CommandError
from gt_cli.local.command import job_environment, local_command
from gt_cli.local.container import expand
from gt_cli.local.manifests import read_manifests
from gt_cli.local.plan import JobPlan, make_plans, settings_for
from gt_protocol.errors import ManifestError, ShardingError

CONFIG_MAPS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: rules}
data: {sharding.yaml: "a: {shard: {workers: [0, 2]}}", small.yaml: "a: {backward: b}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: env}
data: {EPOCHS: "3", LR: "0.1"}
---
"""

CLUSTER = """\
apiVersion: gt.dev/v1alpha1
kind: GTCluster
metadata: {name: shared}
spec:
  image: gt:1
  workerGroups:
  - {name: one, replicas: 2, template: {spec: {nodeSelector: {disk: ssd}}}}
  - {name: two, replicas: 1, device: {vendor: nvidia, resourceName: nvidia.com/mig-1g.5gb}}
  sharding: {configMapRef: {name: rules}}
---
"""


def job(spec: str = "clusterRef: {name: shared}", container: str = "command: [python, -V]", name: str = "train") -> str:
    containers = f"containers: [{{name: client, {container}}}]" if container else "containers: []"
    return (
        f"apiVersion: gt.dev/v1alpha1\nkind: GTJob\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n"
        f"  template: {{spec: {{{containers}}}}}\n---\n"
    )


def plans(folder: Path, *texts: str, names: tuple[str, ...] = ()) -> tuple[list[JobPlan], list[str]]:
    path = folder / "m.yaml"
    path.write_text("".join(texts))
    made, ignored = make_plans(read_manifests([path]), names)
    return made, ignored.lines()


def test_references_are_resolved(tmp_path: Path) -> None:
    own = "clusterTemplate: {spec: {workerGroups: [{name: w}]}}\n  sharding: {inline: 'a: {backward: b}'}"
    made, _ = plans(
        tmp_path,
        CONFIG_MAPS,
        CLUSTER,
        job(),
        job("clusterRef: {name: shared}\n  sharding: {configMapRef: {name: rules, key: small.yaml}}", name="second"),
        job(own, name="third"),
    )
    first, second, third = made
    assert (first.fleet.workers, first.fleet.vendors) == (3, {"cpu", "nvidia"})
    assert first.fleet.sharding == "a: {shard: {workers: [0, 2]}}"
    assert first.sharding is None
    assert second.fleet == first.fleet
    assert second.sharding == "a: {backward: b}"
    assert (third.fleet.workers, third.fleet.vendors, third.fleet.sharding) == (1, {"cpu"}, None)
    assert third.sharding == "a: {backward: b}"


def test_jobs_run_in_order_or_as_named(tmp_path: Path) -> None:
    texts = [CONFIG_MAPS, CLUSTER, job(name="b"), job(name="a"), job(name="c")]
    assert [plan.name for plan in plans(tmp_path, *texts)[0]] == ["b", "a", "c"]
    assert [plan.name for plan in plans(tmp_path, *texts, names=("c", "b"))[0]] == ["b", "c"]
    with pytest.raises(CommandError, match="no GTJob 'd' in the files; there are: b, a, c"):
        plans(tmp_path, *texts, names=("d",))
    with pytest.raises(CommandError, match="no GTJob in the files"):
        plans(tmp_path, CONFIG_MAPS, CLUSTER)


def test_a_job_gets_the_settings_of_its_fleet_and_the_container_s_variables(tmp_path: Path) -> None:
    container = (
        "command: [python, train.py], args: ['--epochs=$(P_EPOCHS)', $(GT_ADDRESS), '$$(A)', $(NOTHING)], "
        "env: [{name: A, value: '1'}, {name: B, value: '$(A)2'}, {name: C}, {name: GT_ADDRESS, value: elsewhere},"
        " {name: LR, valueFrom: {configMapKeyRef: {name: env, key: LR}}},"
        " {name: OPT, valueFrom: {configMapKeyRef: {name: none, key: x, optional: true}}}],"
        "envFrom: [{prefix: P_, configMapRef: {name: env}}, {configMapRef: {name: none, optional: true}}]"
    )
    (plan,), ignored = plans(tmp_path, CONFIG_MAPS, CLUSTER, job(container=container))
    command, env = plan.command(settings_for(plan, "ipc:///there", "uid", tmp_path / "s.yaml"))
    assert command == (sys.executable, "train.py", "--epochs=3", "ipc:///there", "$(A)", "$(NOTHING)")
    expected = {"A": "1", "B": "12", "C": "", "LR": "0.1", "P_EPOCHS": "3", "P_LR": "0.1", "PYTHONUNBUFFERED": "1"}
    expected |= {"GT_ADDRESS": "ipc:///there", "GT_CLUSTER_UID": "uid", "GT_JOB_SHARDING": str(tmp_path / "s.yaml")}
    assert expected.items() <= env.items()
    assert "OPT" not in env
    assert not any("env" in line for line in ignored)


def test_what_only_a_cluster_has_is_told_once_for_each_kind(tmp_path: Path) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n---\n"
    container = "image: mine, command: [python], resources: {limits: {cpu: 1}}, volumeMounts: []"
    spec = "clusterRef: {name: shared}\n  backoffLimit: 2"
    second = job(container="command: [python], image: other", name="second").replace(
        "{spec: {", "{metadata: {labels: {a: b}}, spec: {volumes: [], "
    )
    _, lines = plans(tmp_path, CONFIG_MAPS, CLUSTER, namespace, job(spec, container), second)
    assert [line.split(" is ignored")[0] for line in lines] == [
        "Namespace",
        "image",
        "nodeSelector",
        "resourceName",
        "backoffLimit",
        "resources",
        "volumeMounts",
        "template.metadata",
        "volumes",
    ]
    assert lines[1] == "image is ignored, only a cluster has it (GTCluster shared, GTJob train, GTJob second)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (job("clusterRef: {name: other}"), r":\d+: spec\.clusterRef\.name: there is no GTCluster 'other' in the files"),
        (
            job("clusterRef: {name: shared}\n  sharding: {configMapRef: {name: other}}"),
            r"spec\.sharding\.configMapRef\.name: there is no ConfigMap 'other' in the files",
        ),
        (
            job("clusterRef: {name: shared}\n  sharding: {configMapRef: {name: rules, key: other}}"),
            r"configMapRef\.key: ConfigMap rules has no key 'other' \(its keys: sharding\.yaml, small\.yaml\)",
        ),
        (
            job("clusterTemplate: {spec: {workerGroups: [{name: w}]}}\n  sharding: {configMapRef: {name: rules}}"),
            r"m\.yaml:4: ConfigMap rules: sharding\.yaml:1:26: signal \"a\": worker 2 isn't there",
        ),
        (
            job("clusterTemplate: {spec: {workerGroups: [{name: w}]}}\n  sharding: {inline: 'a: {shard: {}, x: 1}'}"),
            r"spec\.sharding\.inline:1:16: signal \"a\": unknown key \"x\"",
        ),
        (job("clusterRef: {name: shared}\n  suspend: true"), r"spec\.suspend: the job is suspended"),
        (
            job("clusterTemplate: {spec: {workerGroups: [{name: w, replicas: 0}]}}"),
            r"spec\.clusterTemplate\.spec\.workerGroups: the cluster has no worker",
        ),
        (
            job("clusterTemplate: {spec: {suspend: true, workerGroups: [{name: w}]}}"),
            r"spec\.clusterTemplate\.spec\.suspend: the cluster is suspended",
        ),
        (job(container=""), r'spec\.template\.spec\.containers: needs a container named "client"'),
        (job(container="args: [x]"), r"containers\[0\]\.command: is required to run here"),
        (job(container="command: python"), r"containers\[0\]\.command: Input should be a valid list"),
        (job(container="command: [nowhere-to-be-found]"), r"containers\[0\]\.command: there is no program"),
        (job(container="command: [./nowhere]"), r"containers\[0\]\.command: \./nowhere is no program"),
        (job(container="command: [python], workingDir: /nowhere"), r"workingDir: /nowhere is no folder"),
        (
            job(container="command: [python], env: [{name: A, value: 1}]"),
            r"env\[0\]\.value: Input should be a valid string, not 1",
        ),
        (job(container="command: [python], env: [{name: A, vaule: x}]"), r"env\[0\]\.vaule: Extra inputs"),
        (
            job(container="command: [python], env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
            r"env\[0\]\.valueFrom\.secretKeyRef: only a cluster has it",
        ),
        (
            job(container="command: [python], env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]"),
            r"env\[0\]\.valueFrom\.configMapKeyRef\.name: there is no ConfigMap 's'",
        ),
        (
            job(container="command: [python], envFrom: [{secretRef: {name: s}}]"),
            r"envFrom\[0\]\.secretRef: only a cluster has it",
        ),
        (job(container="command: [python], env: [{name: A=B, value: x}]"), r"'A=B' can't be set"),
    ],
)
def test_what_can_not_be_run_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises((ManifestError, ShardingError), match=says) as caught:
        plans(tmp_path, CONFIG_MAPS, CLUSTER, text)
    assert str(caught.value).startswith(f"{tmp_path / 'm.yaml'}:")


def test_references_to_variables_are_those_of_kubernetes() -> None:
    assert expand("$(A) $(B) $$(A) $A $ $(", {"A": "1"}) == "1 $(B) $(A) $A $ $("


def test_commands_are_looked_up_on_this_machine(tmp_path: Path) -> None:
    env = job_environment({"A": "1"}, {"PATH": "/usr/bin:/bin", "GT_KEYS": "/keys", "GT_TIMEOUT": "5"})
    assert env["PATH"] == f"{Path(sys.executable).parent}:/usr/bin:/bin"
    assert "GT_KEYS" not in env
    assert env["GT_TIMEOUT"] == "5"
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert local_command(["python3.11", "x"], env, tmp_path) == (sys.executable, "x")
    assert local_command(["./run.sh", "x"], env, tmp_path) == (str(tmp_path / "./run.sh"), "x")
    assert Path(local_command(["sh"], env, tmp_path)[0]).name == "sh"
    script.chmod(0o644)
    with pytest.raises(CommandError, match="no program on this machine"):
        local_command([str(script)], env, tmp_path)
