"""The smallest GTCluster and GTJob objects that the tests need."""

from __future__ import annotations

from typing import Any

from .kubectl import Object

API_VERSION = "gt.dev/v1alpha1"


def cluster(name: str, replicas: int = 1, **spec: Any) -> Object:
    """Return a GTCluster of CPU workers; ``spec`` replaces fields of its specification."""
    workers = {"name": "cpu", "replicas": replicas, "device": {"vendor": "cpu"}}
    return {
        "apiVersion": API_VERSION,
        "kind": "GTCluster",
        "metadata": {"name": name},
        "spec": {"workerGroups": [workers], **spec},
    }


def job(name: str, cluster_name: str, *command: str, **spec: Any) -> Object:
    """Return a GTJob that runs a command on a cluster in its own namespace."""
    container = {"name": "client", "command": list(command)}
    return {
        "apiVersion": API_VERSION,
        "kind": "GTJob",
        "metadata": {"name": name},
        "spec": {
            "clusterRef": {"name": cluster_name},
            "template": {"spec": {"containers": [container]}},
            **spec,
        },
    }


def config_map(name: str, key: str, text: str) -> Object:
    """Return a ConfigMap with one entry."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text}}
