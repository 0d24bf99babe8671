"""Manifests that are right or wrong, for every rule of the custom resources.

The models and the API server must give the same answer to each.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

_LONG = "a" * 41


@dataclass(frozen=True)
class Case:
    """A manifest.

    Attributes:
        name: What it is about.
        doc: The manifest.
        wrong: Part of the message that refuses it; None if it is right.
    """

    name: str
    doc: Object
    wrong: str | None = None


@dataclass(frozen=True)
class Change:
    """A change of a manifest that is right in itself.

    Attributes:
        name: What it is about.
        old: The manifest before.
        new: The manifest after.
        wrong: Part of the message that refuses it; None if it is allowed.
    """

    name: str
    old: Object
    new: Object
    wrong: str | None = None


def cluster(name: str = "c", **spec: Any) -> Object:
    """A GTCluster."""
    spec = {"workerGroups": [{"name": "cpu"}], **spec}
    return {"apiVersion": "gt.dev/v1alpha1", "kind": "GTCluster", "metadata": {"name": name}, "spec": spec}


def job(name: str = "j", **spec: Any) -> Object:
    """A GTJob on a cluster named `shared`, unless `spec` says otherwise."""
    if not spec.keys() & {"clusterRef", "clusterTemplate"}:
        spec["clusterRef"] = {"name": "shared"}
    spec = {key: value for key, value in spec.items() if value is not ...}
    return {"apiVersion": "gt.dev/v1alpha1", "kind": "GTJob", "metadata": {"name": name}, "spec": spec}


def groups(*items: Any) -> Object:
    """A GTCluster with these worker groups."""
    return cluster(workerGroups=list(items))


def device(**fields: Any) -> Object:
    """A GTCluster with one group of this device."""
    return groups({"name": "g", "device": fields})


def _template(*containers: Any, **spec: Any) -> Object:
    return {"spec": {"containers": list(containers), **spec}}


_FULL_CLUSTER = cluster(
    image="registry.example/gt:1",
    imagePullPolicy="Always",
    dispatcher={
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 2}},
        "template": {"metadata": {"labels": {"team": "a"}}, **_template({"name": "dispatcher", "env": []})},
    },
    workerGroups=[
        {"name": "a100", "replicas": 4, "device": {"vendor": "nvidia", "resourceName": "nvidia.com/mig-3g.40gb"}},
        {"name": "cpu", "replicas": 0, "template": _template({"name": "*"}, nodeSelector={"pool": "x"})},
    ],
    sharding={"configMapRef": {"name": "files", "key": "a.yaml"}},
    suspend=True,
)

CASES = (
    Case("smallest cluster", cluster()),
    Case("cluster with every field", _FULL_CLUSTER),
    Case("cluster without groups", cluster(workerGroups=[]), "workerGroups"),
    Case("cluster without spec", {key: cluster()[key] for key in ("apiVersion", "kind", "metadata")}, "spec"),
    Case("cluster with 65 groups", groups(*({"name": f"g{n}"} for n in range(65))), "workerGroups"),
    Case("longest name", cluster("a" * 40)),
    Case("name too long", cluster(_LONG), "at most 40 characters"),
    Case("name starts with a digit", cluster("1a"), "starts with a letter"),
    Case("name with a dot", cluster("a.b"), "starts with a letter"),
    Case("unknown field", cluster(images="x"), "spec.images"),
    Case("unknown field deep inside", device(vender="cpu"), "vender"),
    Case("empty image", cluster(image=""), "spec.image"),
    Case("unknown pull policy", cluster(imagePullPolicy="Sometimes"), "imagePullPolicy"),
    Case("suspend as text", cluster(suspend="true"), "suspend"),
    Case("image as null", cluster(image=None)),
    Case("suspend as null", cluster(suspend=None)),
    Case("dispatcher as null", cluster(dispatcher=None)),
    Case("groups as null", cluster(workerGroups=None), "workerGroups"),
    Case("template as null", cluster(dispatcher={"template": None})),
    Case("labels as null", cluster(dispatcher={"template": {"metadata": {"labels": None}}})),
    Case("containers as null", cluster(dispatcher={"template": {"spec": {"containers": None}}})),
    Case("node selector as null", cluster(dispatcher={"template": {"spec": {"nodeSelector": None}}})),
    Case("group without name", groups({"replicas": 1}), "name"),
    Case("group name with capitals", groups({"name": "A"}), "name"),
    Case("group name too long", groups({"name": _LONG}), "name"),
    Case("two groups of one name", groups({"name": "a"}, {"name": "a"}), "workerGroups"),
    Case("no replicas", groups({"name": "a", "replicas": 0})),
    Case("most replicas", groups({"name": "a", "replicas": 4096})),
    Case("negative replicas", groups({"name": "a", "replicas": -1}), "replicas"),
    Case("too many replicas", groups({"name": "a", "replicas": 4097}), "replicas"),
    Case("replicas as text", groups({"name": "a", "replicas": "1"}), "replicas"),
    Case("replicas as truth", groups({"name": "a", "replicas": True}), "replicas"),
    Case("replicas as a fraction", groups({"name": "a", "replicas": 1.5}), "replicas"),
    Case("most workers", groups({"name": "a", "replicas": 4000}, {"name": "b", "replicas": 96})),
    Case("too many workers", groups({"name": "a", "replicas": 4000}, {"name": "b", "replicas": 97}), "at most 4096"),
    Case("unknown vendor", device(vendor="tpu"), "vendor"),
    Case("vendor cpu with a resource", device(vendor="cpu", resourceName="a.b/c"), "vendor cpu has no resourceName"),
    Case("default vendor with a resource", device(resourceName="a.b/c"), "vendor cpu has no resourceName"),
    Case("resource without a domain", device(vendor="amd", resourceName="gpu"), "resourceName"),
    Case("quantity as number", cluster(dispatcher={"resources": {"limits": {"cpu": 1}}})),
    Case("quantity as fraction", cluster(dispatcher={"resources": {"limits": {"cpu": 0.5}}}), "cpu"),
    Case("quantity with a wrong unit", cluster(dispatcher={"resources": {"limits": {"memory": "4GB"}}}), "memory"),
    Case("quantity as truth", cluster(dispatcher={"resources": {"limits": {"cpu": True}}}), "cpu"),
    Case("container without name", cluster(dispatcher={"template": _template({"image": "x"})}), "name"),
    Case("container twice", cluster(dispatcher={"template": _template({"name": "a"}, {"name": "a"})}), "containers"),
    Case("template without spec around", cluster(dispatcher={"template": {"containers": []}}), "containers"),
    Case("label that is no text", cluster(dispatcher={"template": {"metadata": {"labels": {"a": 1}}}}), "labels"),
    Case("sharding without a reference", cluster(sharding={}), "configMapRef"),
    Case("sharding inline in a cluster", cluster(sharding={"inline": "x"}), "inline"),
    Case("sharding without key", cluster(sharding={"configMapRef": {"name": "a"}})),
    Case("sharding with a path as key", cluster(sharding={"configMapRef": {"name": "a", "key": "../b"}}), "key"),
    Case("sharding without name", cluster(sharding={"configMapRef": {"key": "a"}}), "name"),
    Case("smallest job", job()),
    Case("job with a cluster of its own", job(clusterTemplate={"spec": cluster()["spec"]})),
    Case("job with two clusters", job(clusterRef={"name": "a"}, clusterTemplate={"spec": cluster()["spec"]}), "one of"),
    Case("job without cluster", job(clusterRef=...), "exactly one of clusterRef and clusterTemplate"),
    Case("job of another namespace", job(clusterRef={"name": "a", "namespace": "b"}), "namespace"),
    Case("job of a cluster without name", job(clusterRef={"name": ""}), "name"),
    Case("job name too long", job(_LONG), "at most 40 characters"),
    Case("job with a wrong cluster", job(clusterTemplate={"spec": device(resourceName="a/b")["spec"]}), "vendor cpu"),
    Case("job with a file", job(sharding={"inline": "version: 1"})),
    Case("job with a file in a ConfigMap", job(sharding={"configMapRef": {"name": "a"}})),
    Case(
        "job with two files",
        job(sharding={"inline": "a", "configMapRef": {"name": "a"}}),
        "exactly one of configMapRef and inline",
    ),
    Case("job with no file", job(sharding={}), "exactly one of configMapRef and inline"),
    Case("job with a long file", job(sharding={"inline": "a" * 65536})),
    Case("job with too long a file", job(sharding={"inline": "a" * 65537}), "inline"),
    Case("job with a pod", job(template=_template({"name": "client", "command": ["true"]}), backoffLimit=0)),
    Case("job with a negative limit", job(backoffLimit=-1), "backoffLimit"),
    Case("job with too high a limit", job(backoffLimit=1001), "backoffLimit"),
    Case("job with a field of later", job(parallelism=2), "parallelism"),
)

_GPU = groups({"name": "a", "device": {"vendor": "nvidia"}}, {"name": "b"})
_OWN = job(clusterTemplate={"spec": _GPU["spec"]})


def _changed(doc: Object, *path: Any, value: Any) -> Object:
    doc = deepcopy(doc)
    node: Any = doc
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return doc


CHANGES = (
    Change("vendor changed", _GPU, groups({"name": "a", "device": {"vendor": "amd"}}), "vendor of a group"),
    Change("vendor dropped", _GPU, groups({"name": "a"}), "vendor of a group"),
    Change("groups swapped", _GPU, groups({"name": "b"}, {"name": "a", "device": {"vendor": "nvidia"}})),
    Change("group replaced", _GPU, groups({"name": "c", "device": {"vendor": "amd"}})),
    Change("group scaled", cluster(), groups({"name": "cpu", "replicas": 9})),
    Change("image changed", cluster(image="a"), cluster(image="b")),
    Change("other cluster", job(), job(clusterRef={"name": "other"}), "another cluster"),
    Change("cluster of its own", job(), _changed(_OWN, "metadata", "name", value="j"), "between clusterRef"),
    Change(
        "vendor of its own cluster",
        _OWN,
        _changed(_OWN, "spec", "clusterTemplate", "spec", "workerGroups", 0, "device", "vendor", value="amd"),
        "vendor of a group",
    ),
    Change("job suspended", job(), job(suspend=True)),
)
