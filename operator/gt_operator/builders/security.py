"""Who a cluster's pods are, whom they may reach, and their keys."""

from __future__ import annotations

from typing import Any

from gt_operator.builders.names import (
    component_selector,
    dispatcher_name,
    keys_name,
    service_account_name,
    workers_name,
)
from gt_operator.builders.ownership import owned
from gt_operator.keys import KeyRing
from gt_operator.objects import Object
from gt_protocol.resources import GTCluster
from gt_protocol.resources.constants import CLIENT, CLIENT_LABEL, CLIENT_PORT, DISPATCHER, WORKER, WORKER_PORT


def service_account(cluster: GTCluster) -> Object:
    """Returns the ServiceAccount of the pods; it has no rights, and no token is mounted."""
    head = owned("v1", "ServiceAccount", service_account_name(cluster.metadata.name), cluster)
    return head | {"automountServiceAccountToken": False}


def keys_secret(cluster: GTCluster, ring: KeyRing, role: str) -> Object:
    """Returns the Secret with a role's keys."""
    head = owned("v1", "Secret", keys_name(cluster.metadata.name, role), cluster)
    return head | {"type": "Opaque", "data": ring.data(role)}


def dispatcher_policy(cluster: GTCluster) -> Object:
    """Returns the NetworkPolicy that lets clients and workers reach the dispatcher, and nobody else."""
    name = cluster.metadata.name
    clients = [_pods(component_selector(name, CLIENT)), _pods({CLIENT_LABEL: "true"})]
    workers = [_pods(component_selector(name, WORKER))]
    ingress = [
        {"from": clients, "ports": [_port(CLIENT_PORT)]},
        {"from": workers, "ports": [_port(WORKER_PORT)]},
    ]
    return _policy(cluster, dispatcher_name(name), DISPATCHER, ingress)


def workers_policy(cluster: GTCluster) -> Object:
    """Returns the NetworkPolicy that lets the dispatcher and other workers of the cluster reach a worker."""
    name = cluster.metadata.name
    peers = [_pods(component_selector(name, component)) for component in (WORKER, DISPATCHER)]
    return _policy(cluster, workers_name(name), WORKER, [{"from": peers}])


def _policy(cluster: GTCluster, name: str, component: str, ingress: list[Any]) -> Object:
    body = {
        "podSelector": {"matchLabels": component_selector(cluster.metadata.name, component)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    return owned("networking.k8s.io/v1", "NetworkPolicy", name, cluster) | {"spec": body}


def _pods(labels: dict[str, str]) -> Object:
    return {"podSelector": {"matchLabels": labels}}


def _port(number: int) -> Object:
    return {"port": number, "protocol": "TCP"}
