"""Names and labels of what is made for a cluster or job."""

from __future__ import annotations

from typing import Final

from gt_operator.objects import MANAGED_BY
from gt_protocol.resources.constants import (
    CLIENT,
    CLIENT_PORT,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    JOB_LABEL,
    WORKER_PORT,
)

KEYS_FOLDER: Final = "/etc/gt/keys"
SHARDING_FOLDER: Final = "/etc/gt/sharding"


def dispatcher_name(cluster: str) -> str:
    """Name of the dispatcher's Deployment, Service and PodDisruptionBudget."""
    return f"{cluster}-dispatcher"


def workers_name(cluster: str) -> str:
    """Name of the workers' NetworkPolicy."""
    return f"{cluster}-workers"


def keys_name(cluster: str, role: str) -> str:
    """Name of the Secret with a role's keys."""
    return f"{cluster}-keys-{role}"


def service_account_name(cluster: str) -> str:
    """Name of the ServiceAccount of all pods of a cluster and its jobs."""
    return f"{cluster}-gt"


def job_sharding_name(job: str) -> str:
    """Name of the ConfigMap with a sharding file that stands in the job itself."""
    return f"{job}-sharding"


def cluster_labels(cluster: str, component: str | None = None) -> dict[str, str]:
    """Labels of what is made for a cluster; with `component`, those that select its pods."""
    labels = {CLUSTER_LABEL: cluster, **MANAGED_BY}
    return labels if component is None else {**labels, COMPONENT_LABEL: component}


def component_selector(cluster: str, component: str) -> dict[str, str]:
    """Labels that tell the pods of a component from all others."""
    return {CLUSTER_LABEL: cluster, COMPONENT_LABEL: component}


def client_labels(cluster: str, job: str) -> dict[str, str]:
    """Labels of a job's pods."""
    return {**cluster_labels(cluster, CLIENT), JOB_LABEL: job}


def client_address(cluster: str, namespace: str) -> str:
    """Address of a dispatcher for clients."""
    return f"tcp://{dispatcher_name(cluster)}.{namespace}.svc:{CLIENT_PORT}"


def worker_address(cluster: str, namespace: str) -> str:
    """Address of a dispatcher for workers."""
    return f"tcp://{dispatcher_name(cluster)}.{namespace}.svc:{WORKER_PORT}"
