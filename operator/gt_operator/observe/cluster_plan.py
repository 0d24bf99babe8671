"""What to make and delete for a cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gt_operator.builders.cluster import ClusterDesign
from gt_operator.builders.workers import WorkerSlot
from gt_operator.objects import HASH_ANNOTATION, Object, annotation_of, is_going, label_of, name_of
from gt_operator.observe.pods import age, has_ended, is_ready
from gt_protocol.resources.constants import WORKER_INDEX_LABEL

REPLACE_AFTER = 10.0
"""Least age, in seconds, at which a pod that failed is replaced: one that always fails can't make pods endlessly."""


@dataclass(frozen=True)
class ClusterPlan:
    """What to do.

    Attributes:
        surroundings: What should be as given before any pod is made.
        dispatcher: The Deployment that should be as given; None if nothing may start yet.
        create: Workers that have no pod.
        delete: Pods that should not be there.
        check_again: Seconds until the plan may change by itself; None if only events change it.
    """

    surroundings: tuple[Object, ...]
    dispatcher: Object | None
    create: tuple[WorkerSlot, ...]
    delete: tuple[Object, ...]
    check_again: float | None = None


def decide_cluster(design: ClusterDesign, workers: Iterable[Object], held: bool, now: datetime) -> ClusterPlan:
    """Returns what to do.

    Args:
        design: What should be there.
        workers: The workers' pods that are there.
        held: Whether nothing may start yet.
        now: The time.
    """
    if held:
        return ClusterPlan(design.surroundings, None, (), ())
    of_slot: dict[int, list[Object]] = defaultdict(list)
    wanted = {slot.index: slot for slot in design.workers}
    delete: list[Object] = []
    for pod in workers:
        if is_going(pod):
            continue
        index = _index(pod)
        if index in wanted and annotation_of(pod, HASH_ANNOTATION) == wanted[index].hash:
            of_slot[index].append(pod)
        else:
            delete.append(pod)
    check_again: float | None = None
    for pods in of_slot.values():
        keep, *others = sorted(pods, key=lambda pod: (has_ended(pod), not is_ready(pod), name_of(pod)))
        delete += others
        if has_ended(keep):
            wait = REPLACE_AFTER - age(keep, now)
            if wait <= 0:
                pods.clear()
                delete.append(keep)
            else:
                check_again = min(wait, check_again or wait)
    create = tuple(slot for slot in design.workers if not of_slot.get(slot.index))
    return ClusterPlan(design.surroundings, design.dispatcher, create, tuple(delete), check_again)


def _index(pod: Object) -> int:
    text = label_of(pod, WORKER_INDEX_LABEL)
    return int(text) if text.isascii() and text.isdigit() else -1
