"""Manifests made from GTCluster and GTJob."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gt_operator.builders import dispatcher, security
from gt_operator.builders.job import batch_job, inline_sharding, own_cluster, sharding_ref
from gt_operator.builders.workers import worker_pod, worker_slots
from gt_operator.errors import TemplateError
from gt_operator.keys import ROLES, KeyRing
from gt_protocol.settings import ClientSettings, DispatcherSettings, WorkerSettings
from tests.support.operator_objects import CONFIG, FINGERPRINT, Object, cluster, design, job

SHARDING = {"configMapRef": {"name": "files", "key": "a.yaml"}}


def main_container(template: Object) -> Object:
    container: Object = template["spec"]["containers"][0]
    return container


def env_of(template: Object) -> dict[str, str]:
    return {each["name"]: each.get("value", "10.0.0.1") for each in main_container(template)["env"]}


def deployment(**spec: Any) -> Object:
    return dispatcher.deployment(cluster(**spec), CONFIG, FINGERPRINT)


def pod(index: int = 0, **spec: Any) -> Object:
    return worker_pod(cluster(**spec), design(**spec).workers[index], "x")


def client_template(**spec: Any) -> Object:
    template: Object = batch_job(job(**spec), cluster(image="the/clusters:1"), CONFIG, FINGERPRINT)["spec"]["template"]
    return template


def test_dispatcher_gets_its_settings() -> None:
    template = deployment(sharding=SHARDING)["spec"]["template"]
    settings = DispatcherSettings.from_env(env_of(template))
    assert settings.client_endpoint == "tcp://*:7070"
    assert settings.worker_endpoint == "tcp://*:7071"
    assert (settings.workers, settings.http_port, settings.cluster_uid) == (2, 7080, "cluster-uid")
    assert str(settings.sharding) == "/etc/gt/sharding/a.yaml"
    assert str(settings.keys) == "/etc/gt/keys"
    assert {"name": "sharding", "configMap": {"name": "files"}} in template["spec"]["volumes"]


def test_worker_gets_its_settings() -> None:
    settings = WorkerSettings.from_env(env_of(pod(1)))
    assert settings.dispatcher == "tcp://c-dispatcher.ns.svc:7071"
    assert (settings.index, settings.device, settings.host, settings.http_port) == (1, "cpu", "10.0.0.1", 7080)
    assert settings.cluster_uid == "cluster-uid"


def test_client_gets_its_settings() -> None:
    settings = ClientSettings.from_env(env_of(client_template(sharding=SHARDING)))
    assert settings.address == "tcp://c-dispatcher.ns.svc:7070"
    assert str(settings.job_sharding) == "/etc/gt/sharding/a.yaml"
    assert settings.cluster_uid == "cluster-uid"


def test_client_runs_the_image_of_its_cluster_unless_the_job_names_another() -> None:
    assert main_container(client_template())["image"] == "the/clusters:1"
    own = {"spec": {"containers": [{"name": "client", "image": "own"}]}}
    assert main_container(client_template(template=own))["image"] == "own"


def test_workers_are_numbered_over_all_groups() -> None:
    groups = [{"name": "a", "replicas": 2}, {"name": "none", "replicas": 0}, {"name": "b", "replicas": 1}]
    slots = design(workerGroups=groups).workers
    assert [(slot.index, slot.group) for slot in slots] == [(0, "a"), (1, "a"), (2, "b")]
    assert len({slot.hash for slot in slots}) == 3
    assert [slot.template["metadata"]["labels"]["gt.dev/worker-index"] for slot in slots] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("device", "limits", "name"),
    [
        ({"vendor": "nvidia"}, {"nvidia.com/gpu": 1}, "cuda"),
        ({"vendor": "amd"}, {"amd.com/gpu": 1}, "cuda"),
        ({"vendor": "nvidia", "resourceName": "nvidia.com/mig-1g.5gb"}, {"nvidia.com/mig-1g.5gb": 1}, "cuda"),
        ({"vendor": "cpu"}, None, "cpu"),
    ],
)
def test_worker_gets_one_device(device: Object, limits: Object | None, name: str) -> None:
    container = main_container(pod(workerGroups=[{"name": "g", "device": device}]))
    assert container["resources"].get("limits") == limits
    assert ("OMP_NUM_THREADS" in env_of(pod(workerGroups=[{"name": "g", "device": device}]))) == (name == "cpu")
    assert WorkerSettings.from_env(env_of(pod(workerGroups=[{"name": "g", "device": device}]))).device == name


@pytest.mark.parametrize("template", [deployment()["spec"]["template"], pod(), client_template()])
def test_pods_keep_to_the_restricted_level(template: Object) -> None:
    spec = template["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert {kind for volume in spec["volumes"] for kind in volume} <= {"name", "emptyDir", "secret", "configMap"}


@pytest.mark.parametrize(
    ("resources", "requests", "threads"),
    [
        ({}, {"cpu": "100m", "memory": "256Mi"}, "1"),
        ({"requests": {"cpu": "1500m"}}, {"cpu": "1500m", "memory": "256Mi"}, "2"),
        ({"requests": {"cpu": 3}, "limits": {"cpu": "8"}}, {"cpu": 3, "memory": "256Mi"}, "8"),
        # A request above a limit would be refused.
        ({"limits": {"cpu": "10m", "memory": "32Mi"}}, {}, "1"),
        ({"limits": {"cpu": "many"}}, {"memory": "256Mi"}, "1"),
    ],
)
def test_resources_are_completed_and_threads_follow_them(resources: Object, requests: Object, threads: str) -> None:
    overlay = {"spec": {"containers": [{"name": "*", "resources": resources}]}}
    template = pod(workerGroups=[{"name": "g", "template": overlay}])
    assert main_container(template)["resources"]["requests"] == requests
    assert env_of(template)["OMP_NUM_THREADS"] == threads


def test_threads_that_the_user_sets_are_kept() -> None:
    container = {"name": "*", "env": [{"name": "OMP_NUM_THREADS", "value": "7"}]}
    template = pod(workerGroups=[{"name": "g", "template": {"spec": {"containers": [container]}}}])
    assert env_of(template)["OMP_NUM_THREADS"] == "7"


def test_each_part_mounts_only_its_own_keys() -> None:
    names = {
        part: next(each["secret"]["secretName"] for each in template["spec"]["volumes"] if "secret" in each)
        for part, template in (
            ("dispatcher", deployment()["spec"]["template"]),
            ("worker", pod()),
            ("client", client_template()),
        )
    }
    assert names == {part: f"c-keys-{part}" for part in names}
    ring = KeyRing.make()
    assert {security.keys_secret(cluster(), ring, role)["metadata"]["name"] for role in ROLES} == set(names.values())


def test_templates_lie_over_the_pod_in_their_order() -> None:
    everywhere = {
        "metadata": {"labels": {"from": "chart", "gt.dev/component": "other"}},
        "spec": {
            "containers": [
                {"name": "*", "env": [{"name": "A", "value": "chart"}, {"name": "B", "value": "chart"}]},
                {"name": "dispatcher", "image": "not/for:workers"},
            ],
            "nodeSelector": {"pool": "chart"},
        },
    }
    own = {"spec": {"containers": [{"name": "worker", "env": [{"name": "B", "value": "own"}]}]}}
    resource = cluster(workerGroups=[{"name": "g", "template": own}])
    (slot,) = worker_slots(resource, replace(CONFIG, pod_overlay=everywhere), FINGERPRINT)
    env = env_of(slot.template)
    assert (env["A"], env["B"]) == ("chart", "own")
    assert len(slot.template["spec"]["containers"]) == 1
    assert slot.template["spec"]["nodeSelector"] == {"pool": "chart"}
    # Others find the pods by these.
    assert slot.template["metadata"]["labels"]["gt.dev/component"] == "worker"
    assert slot.template["metadata"]["labels"]["from"] == "chart"


def test_hash_changes_with_what_was_asked_for_and_with_the_keys() -> None:
    slot = design().workers[0]
    assert slot.hash == design().workers[0].hash
    assert slot.hash != design(image="other").workers[0].hash
    assert slot.hash != worker_slots(cluster(), CONFIG, "another")[0].hash


def test_everything_is_owned_without_blocking_its_owner() -> None:
    for body in (*design().surroundings, design().dispatcher, pod()):
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("cluster-uid", True, False)
        assert body["metadata"]["labels"]["gt.dev/cluster"] == "c"
        assert "finalizers" not in body["metadata"]


def test_dispatcher_is_never_there_twice() -> None:
    assert deployment()["spec"]["strategy"] == {"type": "Recreate"}
    assert deployment()["spec"]["replicas"] == 1
    assert deployment(suspend=True)["spec"]["replicas"] == 0
    assert design(suspend=True).workers == ()
    assert design(suspend=True).size == 2


def test_network_lets_in_clients_and_workers_only() -> None:
    rules = security.dispatcher_policy(cluster())["spec"]["ingress"]
    allowed = {
        rule["ports"][0]["port"]: [peer["podSelector"]["matchLabels"] for peer in rule["from"]] for rule in rules
    }
    assert allowed == {
        7070: [{"gt.dev/cluster": "c", "gt.dev/component": "client"}, {"gt.dev/client": "true"}],
        7071: [{"gt.dev/cluster": "c", "gt.dev/component": "worker"}],
    }
    (rule,) = security.workers_policy(cluster())["spec"]["ingress"]
    components = [peer["podSelector"]["matchLabels"]["gt.dev/component"] for peer in rule["from"]]
    assert components == ["worker", "dispatcher"]


def test_own_cluster_is_as_written_and_follows_suspend() -> None:
    template = {"spec": {"workerGroups": [{"name": "g", "replicas": 3}]}}
    body = own_cluster(job(clusterTemplate=template, suspend=True))
    assert body is not None
    assert body["spec"] == {"workerGroups": [{"name": "g", "replicas": 3}], "suspend": True}
    assert body["metadata"]["name"] == "j"
    assert own_cluster(job()) is None


def test_sharding_in_the_job_becomes_a_config_map() -> None:
    resource = job(sharding={"inline": "version: 1"})
    body, ref = inline_sharding(resource), sharding_ref(resource)
    assert body is not None
    assert ref is not None
    assert (body["metadata"]["name"], body["data"]) == (ref.name, {ref.key: "version: 1"})


@pytest.mark.parametrize("container", [{"name": "client"}, {"name": "sidecar", "image": "x", "command": ["true"]}])
def test_job_must_say_what_to_run(container: Object) -> None:
    with pytest.raises(TemplateError, match="must say what to run"):
        client_template(template={"spec": {"containers": [container]}})


@pytest.mark.parametrize("container", [{"image": "own"}, {"command": ["true"]}, {"args": ["a"]}])
def test_job_with_an_image_or_a_command_runs(container: Object) -> None:
    client_template(template={"spec": {"containers": [{"name": "client", **container}]}})
