"""Pooling, resampling and padding: everything before the spatial axes can be split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.axes import Axes, Result, by_axes, labelled
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.rules.factories import local_sizes
from gt_dispatcher.planner.strategy import LocalArgument, Rule, Strategy
from gt_protocol.placements import Shard

_PER_PLANE: Final[Mapping[str, int]] = {
    **dict.fromkeys(("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d"), 2),
    **dict.fromkeys(("max_pool3d_with_indices", "avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool3d"), 3),
    **dict.fromkeys(("reflection_pad2d", "replication_pad2d", "upsample_nearest2d", "upsample_bilinear2d"), 2),
    **dict.fromkeys(("upsample_bicubic2d", "_upsample_nearest_exact2d", "_upsample_bilinear2d_aa"), 2),
    **dict.fromkeys(("reflection_pad1d", "replication_pad1d", "upsample_nearest1d", "upsample_linear1d"), 1),
}
"""Number of spatial axes of operators that work on each plane by itself."""


def per_plane(instruction: Instruction) -> Strategy:
    """Batch and channels can be split; only a batch may be empty on a worker."""
    base = instruction.name.removeprefix("aten::").partition(".")[0]
    spatial = _PER_PLANE[base.removesuffix("_backward")]
    rank = len(instruction.shape(0))
    if any(len(meta.shape) != rank for meta in instruction.metas) or rank <= spatial:
        raise NoRule("the operands differ in rank")
    names = labelled(rank, without=tuple(range(rank - spatial, rank)))
    solid = frozenset(names) if rank != spatial + 2 else frozenset(names[1:])

    def local(name: str) -> dict[int, LocalArgument]:
        if not base.startswith(("upsample", "_upsample")) or not base.endswith("_backward"):
            return {}
        axis = names.index(name)
        return {2: local_sizes(instruction, instruction.new[0].meta, Shard(axis))}

    axes = Axes((names,) * len(instruction.operands), (Result(names),) * len(instruction.new), solid=solid, local=local)
    return by_axes(instruction, axes)


_BACKWARD: Final = (
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
    "upsample_nearest2d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
)

RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys((f"aten::{name}" for name in _PER_PLANE), per_plane),
    **dict.fromkeys((f"aten::{name}_backward" for name in _BACKWARD), per_plane),
}
