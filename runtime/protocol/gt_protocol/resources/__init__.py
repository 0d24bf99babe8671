"""The custom resources GTCluster and GTJob: their fields, their rules, and the CRDs made from them."""

from gt_protocol.resources.cluster import GTCluster, GTClusterSpec, WorkerGroup
from gt_protocol.resources.constants import (
    API_VERSION,
    CLUSTER_KIND,
    CLUSTER_PLURAL,
    GROUP,
    JOB_KIND,
    JOB_PLURAL,
    VERSION,
)
from gt_protocol.resources.job import GTJob, GTJobSpec
from gt_protocol.resources.load import check_update, load_resource

__all__ = [
    "API_VERSION",
    "CLUSTER_KIND",
    "CLUSTER_PLURAL",
    "GROUP",
    "JOB_KIND",
    "JOB_PLURAL",
    "VERSION",
    "GTCluster",
    "GTClusterSpec",
    "GTJob",
    "GTJobSpec",
    "WorkerGroup",
    "check_update",
    "load_resource",
]
