"""GTCluster: a dispatcher and its workers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gt_protocol.resources.base import (
    Condition,
    ConfigMapKeyRef,
    GroupName,
    ListMap,
    Model,
    ObjectMeta,
    PodTemplate,
    ResourceRequirements,
    name_rules,
)
from gt_protocol.resources.constants import API_VERSION, CLUSTER_KIND
from gt_protocol.resources.rules import Rule, Transition
from gt_protocol.settings import MAX_WORKERS

MAX_GROUPS = 64


class Dispatcher(Model):
    """The part that takes instructions from clients and hands programs to workers."""

    resources: ResourceRequirements | None = None
    """Compute resources of the dispatcher's container."""
    template: PodTemplate | None = None
    """Pod template laid over the dispatcher's pod. Its container is named "dispatcher"."""


class Device(Model):
    """The device that each worker of a group gets."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.vendor != 'cpu' || !has(self.resourceName)",
            message="vendor cpu has no resourceName; set resources in the group's template instead",
            holds=lambda device: device.vendor != "cpu" or device.resource_name is None,
        ),
    )

    vendor: Literal["nvidia", "amd", "cpu"] = "cpu"
    """Vendor of the device: nvidia, amd or cpu. It can't be changed; add another group instead. A cpu worker uses as
    many threads as its container's CPU limit or request says, and one if neither is set."""
    resource_name: (
        Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[-._a-zA-Z0-9]+$")]
        | None
    ) = None
    """Extended resource that stands for one device, such as nvidia.com/mig-3g.40gb.
    Default: nvidia.com/gpu or amd.com/gpu."""


class WorkerGroup(Model):
    """Workers that are alike."""

    name: GroupName
    """Name of the group, unique in the cluster."""
    replicas: int = Field(default=1, ge=0, le=MAX_WORKERS)
    """Number of workers: one pod, with one device, each."""
    device: Device = Field(default_factory=Device)
    """The device of each worker."""
    template: PodTemplate | None = None
    """Pod template laid over each worker's pod. Its container is named "worker"."""


class ClusterSharding(Model):
    """Where the cluster's sharding file is."""

    config_map_ref: ConfigMapKeyRef
    """The ConfigMap that holds it."""


def _vendors_kept(old: GTClusterSpec, new: GTClusterSpec) -> bool:
    before = {group.name: group.device.vendor for group in old.worker_groups}
    return all(before.get(group.name, group.device.vendor) == group.device.vendor for group in new.worker_groups)


class GTClusterSpec(Model):
    """What the user asks for."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"self.workerGroups.map(group, group.replicas).sum() <= {MAX_WORKERS}",
            message=f"a cluster has at most {MAX_WORKERS} workers over all groups",
            holds=lambda spec: sum(group.replicas for group in spec.worker_groups) <= MAX_WORKERS,
        ),
    )
    transitions: ClassVar[tuple[Transition, ...]] = (
        Transition(
            cel="self.workerGroups.all(new, !oldSelf.workerGroups.exists(old, old.name == new.name"
            " && old.device.vendor != new.device.vendor))",
            message="the vendor of a group can't be changed; add a group with another name",
            holds=_vendors_kept,
        ),
    )

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Image of dispatcher and workers. Default: the operator's own image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When nodes pull the image: Always, IfNotPresent or Never."""
    dispatcher: Dispatcher = Field(default_factory=Dispatcher)
    """The dispatcher."""
    worker_groups: Annotated[list[WorkerGroup], ListMap("name")] = Field(min_length=1, max_length=MAX_GROUPS)
    """Groups of workers. Workers are numbered from 0 over all groups, in this order."""
    sharding: ClusterSharding | None = None
    """The sharding file for all programs that bring none. Default: none."""
    suspend: bool = False
    """Stops all pods of the cluster while true; what its sessions hold is lost."""


class GTClusterStatus(Model):
    """What the operator saw."""

    observed_generation: int = Field(default=0, ge=0)
    """Generation of the specification that this status was made from."""
    ready: Annotated[str, Field(max_length=32)] = ""
    """Workers that the dispatcher has accepted, of workers asked for, such as 3/4."""
    workers: int = Field(default=0, ge=0)
    """Workers asked for."""
    ready_workers: int = Field(default=0, ge=0)
    """Workers that the dispatcher has accepted."""
    address: Annotated[str, Field(max_length=512)] = ""
    """Address of the dispatcher for clients in the Kubernetes cluster."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Reason of the Ready condition."""
    conditions: Annotated[list[Condition], ListMap("type")] = Field(default_factory=list, max_length=16)
    """Ready: the dispatcher has accepted every worker. Progressing: something is being made. Degraded: it was Ready
    and has lost a part. ShardingValid: the sharding file can be used. Suspended: stopped by the user."""


class GTCluster(Model):
    """A dispatcher and its workers: one PyTorch device that many programs share."""

    rules: ClassVar[tuple[Rule, ...]] = name_rules(CLUSTER_KIND)

    api_version: Literal["gt.dev/v1alpha1"] = API_VERSION
    """Version of the API."""
    kind: Literal["GTCluster"] = CLUSTER_KIND
    """Kind of the object."""
    metadata: ObjectMeta
    """Metadata of the object."""
    spec: GTClusterSpec
    """What the user asks for."""
    status: GTClusterStatus | None = None
    """What the operator saw."""
