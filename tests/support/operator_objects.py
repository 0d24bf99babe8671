"""Objects as the API server shows them to the operator."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from gt_operator.builders.cluster import ClusterDesign, design_cluster
from gt_operator.builders.workers import WorkerSlot, worker_pod
from gt_operator.config import OperatorConfig
from gt_protocol.resources import GTCluster, GTJob, load_resource

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
CONFIG = OperatorConfig(image="registry.example/gt:1")
FINGERPRINT = "0123456789abcdef"


def cluster(**spec: Any) -> GTCluster:
    """A GTCluster `c` with two CPU workers, unless `spec` says otherwise."""
    spec = {"workerGroups": [{"name": "cpu", "replicas": 2}], **spec}
    metadata = {"name": "c", "namespace": "ns", "uid": "cluster-uid", "generation": 3}
    loaded = load_resource({"apiVersion": "gt.dev/v1alpha1", "kind": "GTCluster", "metadata": metadata, "spec": spec})
    assert isinstance(loaded, GTCluster)
    return loaded


def job(**spec: Any) -> GTJob:
    """A GTJob `j` that runs `true` on the cluster `c`, unless `spec` says otherwise."""
    if not spec.keys() & {"clusterRef", "clusterTemplate"}:
        spec["clusterRef"] = {"name": "c"}
    spec.setdefault("template", {"spec": {"containers": [{"name": "client", "command": ["true"]}]}})
    metadata = {"name": "j", "namespace": "ns", "uid": "job-uid", "generation": 2}
    loaded = load_resource({"apiVersion": "gt.dev/v1alpha1", "kind": "GTJob", "metadata": metadata, "spec": spec})
    assert isinstance(loaded, GTJob)
    return loaded


def shown(resource: GTCluster | GTJob, *conditions: Object, **status: Any) -> Object:
    """A resource as the API server shows it, with conditions."""
    obj = resource.model_dump(by_alias=True, exclude_none=True)
    generation = obj["metadata"]["generation"]
    defaults = {"observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}
    obj["status"] = {
        "observedGeneration": generation,
        "conditions": [{**defaults, "reason": "Because", **each} for each in conditions],
        **status,
    }
    return obj


def design(**spec: Any) -> ClusterDesign:
    """What should be there for the cluster of this specification."""
    return design_cluster(cluster(**spec), CONFIG, FINGERPRINT)


def worker(slot: WorkerSlot, name: str = "", *, ready: bool = False, phase: str = "Running", age: float = 60) -> Object:
    """The pod of a worker, as the API server shows it."""
    pod = deepcopy(worker_pod(cluster(), slot, name or f"{slot.index}"))
    made = datetime.fromtimestamp(NOW.timestamp() - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod["metadata"] |= {"uid": f"uid-{pod['metadata']['name']}", "creationTimestamp": made}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    pod["status"] = {"phase": phase, "conditions": [condition]}
    return pod


def waiting(reason: str, message: str = "", **container: Any) -> Object:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "worker", "state": state, **container}]}


def available(deployment: Object) -> Object:
    """A Deployment as the API server shows it once its pods are ready."""
    shown_deployment = deepcopy(deployment)
    shown_deployment["metadata"]["generation"] = 1
    shown_deployment["status"] = {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1}
    return shown_deployment
