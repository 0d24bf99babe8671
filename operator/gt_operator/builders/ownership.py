"""The metadata that ties what is made to what asked for it, so that deletion needs no finalizer."""

from __future__ import annotations

from gt_operator.builders.names import cluster_labels
from gt_operator.objects import MANAGED_BY, Object
from gt_protocol.resources import API_VERSION, GTCluster, GTJob
from gt_protocol.resources.constants import CLUSTER_LABEL, JOB_LABEL


def owned(api_version: str, kind: str, name: str, owner: GTCluster | GTJob) -> Object:
    """Returns the head of an object's manifest."""
    labels = cluster_labels(owner.metadata.name) if isinstance(owner, GTCluster) else job_labels(owner)
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        },
    }


def owner_reference(owner: GTCluster | GTJob) -> Object:
    """Returns the reference that makes the garbage collector delete an object after its owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        # Blocking would need the right to set finalizers on the owner.
        "blockOwnerDeletion": False,
    }


def job_labels(job: GTJob) -> dict[str, str]:
    """Labels of what is made for a job."""
    return {CLUSTER_LABEL: cluster_of(job), JOB_LABEL: job.metadata.name, **MANAGED_BY}


def cluster_of(job: GTJob) -> str:
    """Name of the cluster that a job runs on."""
    return job.metadata.name if job.spec.cluster_ref is None else job.spec.cluster_ref.name
