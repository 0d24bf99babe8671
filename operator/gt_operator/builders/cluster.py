"""All that a cluster consists of."""

from __future__ import annotations

from dataclasses import dataclass

from gt_operator.builders import dispatcher, security
from gt_operator.builders.workers import WorkerSlot, worker_slots
from gt_operator.config import OperatorConfig
from gt_operator.objects import Object
from gt_protocol.resources import GTCluster


@dataclass(frozen=True)
class ClusterDesign:
    """What should be there for a cluster.

    Attributes:
        surroundings: What pods need before they start.
        dispatcher: The dispatcher's Deployment.
        workers: The workers; empty while the cluster is suspended.
        size: Number of workers asked for, suspended or not.
    """

    surroundings: tuple[Object, ...]
    dispatcher: Object
    workers: tuple[WorkerSlot, ...]
    size: int


def design_cluster(cluster: GTCluster, config: OperatorConfig, fingerprint: str) -> ClusterDesign:
    """Returns what should be there for a cluster, except for its Secrets.

    Raises:
        TemplateError: A template can't be laid over a pod.
    """
    surroundings = (
        security.service_account(cluster),
        security.dispatcher_policy(cluster),
        security.workers_policy(cluster),
        dispatcher.service(cluster),
        dispatcher.disruption_budget(cluster),
    )
    slots = worker_slots(cluster, config, fingerprint)
    return ClusterDesign(
        surroundings=surroundings,
        dispatcher=dispatcher.deployment(cluster, config, fingerprint),
        workers=() if cluster.spec.suspend else slots,
        size=len(slots),
    )
