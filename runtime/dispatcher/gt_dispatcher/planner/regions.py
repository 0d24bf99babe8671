"""Turns rules of the sharding file into regions on the workers that are there."""

from __future__ import annotations

from collections.abc import Collection

from gt_dispatcher.planner.errors import MissingWorker, UnsupportedMesh
from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.plan import Region
from gt_protocol.sharding import SignalRule


def resolve_region(rule: SignalRule, workers: Collection[int]) -> Region | None:
    """The region that a rule describes, or None if it says nothing of where its tensors lie.

    Args:
        rule: A rule of the sharding file.
        workers: Indices of the workers that are there.

    Raises:
        UnsupportedMesh: The mesh has more than one dimension, or its parts have weights.
        MissingWorker: The rule names workers that are not there.
    """
    spec = rule.mesh
    if spec is None:
        return None
    # Without workers, a rule is for all of them: the file was read by someone who did not know how many there are.
    members, shape = (spec.workers, spec.shape) if spec.workers else (tuple(sorted(workers)), (len(workers),))
    missing = sorted(set(members).difference(workers))
    if missing:
        raise MissingWorker(
            f"{_named(missing)} not there",
            line=rule.line,
            signal=rule.name,
            hint=f"workers {', '.join(map(str, sorted(workers)))} are" if workers else "no worker is",
        )
    if len(shape) != 1:
        raise UnsupportedMesh(
            f"a mesh of shape {tuple(shape)} is not supported yet",
            line=rule.line,
            signal=rule.name,
            hint="use a mesh of one dimension: leave `shape` out",
        )
    if rule.weights is not None:
        raise UnsupportedMesh(
            "`weights` are not supported yet", line=rule.line, signal=rule.name, hint="leave them out for even parts"
        )
    return Region(Mesh(tuple(members), tuple(shape), tuple(spec.dim_names)), rule.placements)


def _named(workers: list[int]) -> str:
    return f"worker {workers[0]} is" if len(workers) == 1 else f"workers {', '.join(map(str, workers))} are"
