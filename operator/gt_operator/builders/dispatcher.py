"""The dispatcher's Deployment, Service and PodDisruptionBudget."""

from __future__ import annotations

from gt_operator.builders.names import cluster_labels, component_selector, dispatcher_name
from gt_operator.builders.ownership import owned
from gt_operator.builders.pods import PodParts, overlay_of, pod_template, resources_of
from gt_operator.config import OperatorConfig
from gt_operator.objects import Object
from gt_protocol import settings
from gt_protocol.resources import GTCluster
from gt_protocol.resources.constants import CLIENT_PORT, DISPATCHER, HTTP_PORT, WORKER_PORT

_PORTS = {"clients": CLIENT_PORT, "workers": WORKER_PORT, "http": HTTP_PORT}
_GRACE = 10


def deployment(cluster: GTCluster, config: OperatorConfig, fingerprint: str) -> Object:
    """Returns the Deployment.

    Raises:
        TemplateError: A template can't be laid over the pod.
    """
    spec, name = cluster.spec, cluster.metadata.name
    parts = PodParts(
        component=DISPATCHER,
        cluster=name,
        labels=cluster_labels(name, DISPATCHER),
        fingerprint=fingerprint,
        image=spec.image or config.image,
        pull_policy=spec.image_pull_policy,
        grace=_GRACE,
        command=("python", "-m", "gt_dispatcher"),
        ports=_PORTS,
        resources=resources_of(spec.dispatcher.resources),
        env={
            settings.CLIENT_ENDPOINT: f"tcp://*:{CLIENT_PORT}",
            settings.WORKER_ENDPOINT: f"tcp://*:{WORKER_PORT}",
            settings.HTTP_PORT: str(HTTP_PORT),
            settings.CLUSTER_UID: cluster.metadata.uid,
            settings.WORKERS: str(sum(group.replicas for group in spec.worker_groups)),
        },
        sharding=spec.sharding.config_map_ref if spec.sharding else None,
        sharding_variable=settings.CLUSTER_SHARDING,
    )
    body = {
        "replicas": 0 if spec.suspend else 1,
        "revisionHistoryLimit": 1,
        # Two dispatchers must never order the same workers' work.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": component_selector(name, DISPATCHER)},
        "template": pod_template(parts, config.pod_overlay, overlay_of(spec.dispatcher.template)),
    }
    return owned("apps/v1", "Deployment", dispatcher_name(name), cluster) | {"spec": body}


def service(cluster: GTCluster) -> Object:
    """Returns the Service that clients and workers find the dispatcher by."""
    name = cluster.metadata.name
    body = {
        "selector": component_selector(name, DISPATCHER),
        # A worker must reach the dispatcher before the dispatcher can be ready.
        "publishNotReadyAddresses": True,
        "ports": [
            {"name": port, "port": number, "targetPort": number, "protocol": "TCP"} for port, number in _PORTS.items()
        ],
    }
    return owned("v1", "Service", dispatcher_name(name), cluster) | {"spec": body}


def disruption_budget(cluster: GTCluster) -> Object:
    """Returns the PodDisruptionBudget that keeps a drained node from ending all sessions unasked."""
    name = cluster.metadata.name
    body = {
        "maxUnavailable": 0,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": component_selector(name, DISPATCHER)},
    }
    return owned("policy/v1", "PodDisruptionBudget", dispatcher_name(name), cluster) | {"spec": body}
