"""GTJob: a program that runs on a cluster."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gt_protocol.resources.base import (
    MAX_NAME,
    Condition,
    ConfigMapKeyRef,
    ListMap,
    Model,
    ObjectMeta,
    PodTemplate,
    name_rules,
)
from gt_protocol.resources.cluster import GTClusterSpec
from gt_protocol.resources.constants import API_VERSION, JOB_KIND
from gt_protocol.resources.rules import Rule, Transition

MAX_INLINE_SHARDING = 65536
"""Longest sharding file in a GTJob, in characters."""


class ClusterRef(Model):
    """A GTCluster in the job's namespace."""

    transitions: ClassVar[tuple[Transition, ...]] = (
        Transition(
            cel="self.name == oldSelf.name",
            message="a job can't move to another cluster; make a new job",
            holds=lambda old, new: bool(old.name == new.name),
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    """Name of the GTCluster."""


class ClusterTemplate(Model):
    """A cluster of the job's own, made for it and removed when it has ended."""

    spec: GTClusterSpec
    """Specification of the GTCluster."""


class JobSharding(Model):
    """Where the job's sharding file is."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.configMapRef) != has(self.inline)",
            message="sharding needs exactly one of configMapRef and inline",
            holds=lambda sharding: (sharding.config_map_ref is None) != (sharding.inline is None),
        ),
    )

    config_map_ref: ConfigMapKeyRef | None = None
    """The ConfigMap that holds it."""
    inline: Annotated[str, Field(min_length=1, max_length=MAX_INLINE_SHARDING)] | None = None
    """The file itself."""


class GTJobSpec(Model):
    """What the user asks for."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.clusterRef) != has(self.clusterTemplate)",
            message="a job needs exactly one of clusterRef and clusterTemplate",
            holds=lambda spec: (spec.cluster_ref is None) != (spec.cluster_template is None),
        ),
    )
    transitions: ClassVar[tuple[Transition, ...]] = (
        Transition(
            cel="has(self.clusterRef) == has(oldSelf.clusterRef)",
            message="a job can't change between clusterRef and clusterTemplate; make a new job",
            holds=lambda old, new: (old.cluster_ref is None) == (new.cluster_ref is None),
        ),
    )

    cluster_ref: ClusterRef | None = None
    """The GTCluster to run on, in the same namespace."""
    cluster_template: ClusterTemplate | None = None
    """A GTCluster to make for this job. It gets the job's name, and is removed when the job has ended. Changes have no
    effect while the job runs."""
    sharding: JobSharding | None = None
    """The sharding file of this job, in place of the cluster's."""
    template: PodTemplate | None = None
    """Pod template laid over the client's pod: image (default: the cluster's), command, env, volumes, ... Its container
    is named "client". Changes have no effect once the job has started."""
    backoff_limit: int = Field(default=3, ge=0, le=1000)
    """Number of retries before the job counts as failed. Changes have no effect once the job has started."""
    suspend: bool = False
    """Stops the job's pod, and its own cluster if it has one, while true; it starts anew afterwards."""


class GTJobStatus(Model):
    """What the operator saw."""

    observed_generation: int = Field(default=0, ge=0)
    """Generation of the specification that this status was made from."""
    state: Annotated[str, Field(max_length=32)] = ""
    """Waiting, Running, Suspended, Succeeded or Failed."""
    cluster: Annotated[str, Field(max_length=253)] = ""
    """Name of the GTCluster that the job runs on."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Reason for the state."""
    start_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})] | None = None
    """When the job's first pod was asked for."""
    completion_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})] | None = None
    """When the job ended."""
    conditions: Annotated[list[Condition], ListMap("type")] = Field(default_factory=list, max_length=16)
    """Running: the client's pod runs. Succeeded, Failed: the job has ended, for good. Suspended: stopped by the user.
    ShardingValid: the sharding file can be used."""


class GTJob(Model):
    """A program that runs on a GTCluster."""

    rules: ClassVar[tuple[Rule, ...]] = name_rules(JOB_KIND)

    api_version: Literal["gt.dev/v1alpha1"] = API_VERSION
    """Version of the API."""
    kind: Literal["GTJob"] = JOB_KIND
    """Kind of the object."""
    metadata: ObjectMeta
    """Metadata of the object."""
    spec: GTJobSpec
    """What the user asks for."""
    status: GTJobStatus | None = None
    """What the operator saw."""
