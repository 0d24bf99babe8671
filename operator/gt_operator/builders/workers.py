"""The workers' pods: one for each device."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from gt_operator.builders.names import cluster_labels, worker_address
from gt_operator.builders.ownership import owned
from gt_operator.builders.pods import PodParts, overlay_of, pod_template
from gt_operator.config import OperatorConfig
from gt_operator.objects import HASH_ANNOTATION, Object, digest
from gt_protocol import settings
from gt_protocol.resources import GTCluster, WorkerGroup
from gt_protocol.resources.constants import HTTP_PORT, WORKER, WORKER_GROUP_LABEL, WORKER_INDEX_LABEL

_GRACE = 5
_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
# PyTorch built for ROCm calls its devices cuda too.
_DEVICES = {"nvidia": "cuda", "amd": "cuda", "cpu": "cpu"}
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 6


@dataclass(frozen=True)
class WorkerSlot:
    """A worker that should be there.

    Attributes:
        index: Its place among all workers of the cluster.
        group: Name of its group.
        template: Its pod template.
        hash: Digest of the template.
    """

    index: int
    group: str
    template: Object
    hash: str


def worker_slots(cluster: GTCluster, config: OperatorConfig, fingerprint: str) -> tuple[WorkerSlot, ...]:
    """Returns all workers of a cluster, in the order of their indexes.

    Raises:
        TemplateError: A group's template can't be laid over the pod.
    """
    slots: list[WorkerSlot] = []
    for group in cluster.spec.worker_groups:
        for _ in range(group.replicas):
            template = _template(cluster, group, len(slots), config, fingerprint)
            slots.append(WorkerSlot(len(slots), group.name, template, digest(template)))
    return tuple(slots)


def random_suffix() -> str:
    """Returns the end of a pod's name; 300 million of them, and none of them a word."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX_LENGTH))


def worker_pod(cluster: GTCluster, slot: WorkerSlot, suffix: str) -> Object:
    """Returns the pod for a slot. Its name is never used again, because an old pod's name may take long to be free."""
    pod = owned("v1", "Pod", f"{cluster.metadata.name}-{slot.group}-{suffix}", cluster)
    metadata = slot.template["metadata"]
    pod["metadata"]["labels"] = metadata["labels"]
    pod["metadata"]["annotations"] = {**metadata.get("annotations", {}), HASH_ANNOTATION: slot.hash}
    pod["spec"] = {"restartPolicy": "Always", **slot.template["spec"]}
    return pod


def _template(cluster: GTCluster, group: WorkerGroup, index: int, config: OperatorConfig, fingerprint: str) -> Object:
    name, namespace = cluster.metadata.name, cluster.metadata.namespace
    labels = {**cluster_labels(name, WORKER), WORKER_GROUP_LABEL: group.name, WORKER_INDEX_LABEL: str(index)}
    resource = group.device.resource_name or _RESOURCES.get(group.device.vendor)
    parts = PodParts(
        component=WORKER,
        cluster=name,
        labels=labels,
        fingerprint=fingerprint,
        image=cluster.spec.image or config.image,
        pull_policy=cluster.spec.image_pull_policy,
        grace=_GRACE,
        command=("python", "-m", "gt_worker"),
        ports={"http": HTTP_PORT},
        resources={"limits": {resource: 1}} if resource else {},
        computes_on_cpu=group.device.vendor == "cpu",
        env={
            settings.DISPATCHER: worker_address(name, namespace),
            settings.WORKER_INDEX: str(index),
            settings.DEVICE: _DEVICES[group.device.vendor],
            settings.HTTP_PORT: str(HTTP_PORT),
            settings.CLUSTER_UID: cluster.metadata.uid,
            settings.HOST: {"fieldRef": {"fieldPath": "status.podIP"}},
        },
    )
    return pod_template(parts, config.pod_overlay, overlay_of(group.template))
