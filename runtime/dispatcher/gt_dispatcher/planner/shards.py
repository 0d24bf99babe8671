"""Arithmetic of shards: sizes, offsets and strides of what each worker of a mesh holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gt_dispatcher.planner.layout import Mesh
from gt_protocol.blocks import TensorMeta
from gt_protocol.dtypes import ITEM_SIZES
from gt_protocol.placements import Placement, Shard


def chunk_sizes(length: int, parts: int) -> tuple[int, ...]:
    """Sizes of the parts of an axis, split as `torch.chunk` does; trailing parts may be empty."""
    step = -(-length // parts)
    return tuple(max(0, min(step, length - part * step)) for part in range(parts))


def chunk_starts(length: int, parts: int) -> tuple[int, ...]:
    """First index of each part of an axis; that of an empty part is the axis' length."""
    step = -(-length // parts)
    return tuple(min(length, part * step) for part in range(parts))


def coordinates(position: int, mesh_shape: Sequence[int]) -> tuple[int, ...]:
    """Coordinates of the worker at a position of a mesh."""
    found: list[int] = []
    for size in reversed(mesh_shape):
        position, coordinate = divmod(position, size)
        found.append(coordinate)
    return tuple(reversed(found))


def local_shape(
    shape: Sequence[int], mesh_shape: Sequence[int], placements: Sequence[Placement], position: int
) -> tuple[int, ...]:
    """Shape of what the worker at a position of a mesh holds of a tensor."""
    sizes = list(shape)
    where = coordinates(position, mesh_shape)
    for parts, place, coordinate in zip(mesh_shape, placements, where, strict=True):
        if isinstance(place, Shard):
            sizes[place.axis] = chunk_sizes(sizes[place.axis], parts)[coordinate]
    return tuple(sizes)


def local_shapes(shape: Sequence[int], mesh: Mesh, placements: Sequence[Placement]) -> tuple[tuple[int, ...], ...]:
    """Shape of what each worker of a mesh holds of a tensor, in the mesh's order."""
    return tuple(local_shape(shape, mesh.shape, placements, position) for position in range(mesh.size))


def has_empty_shard(shape: Sequence[int], mesh: Mesh, placements: Sequence[Placement]) -> bool:
    """Whether a worker holds nothing of a tensor that is not empty itself."""
    return 0 not in shape and any(0 in local for local in local_shapes(shape, mesh, placements))


def dense_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor without gaps whose axes lie in the same order in memory, outermost first."""
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    dense = [1] * len(shape)
    step = 1
    for axis in reversed(order):
        dense[axis] = step
        step *= max(1, shape[axis])
    return tuple(dense)


def is_dense(meta: TensorMeta) -> bool:
    """Whether a tensor fills its part of the storage without gaps or overlaps."""
    wanted = dense_strides(meta.shape, meta.strides)
    return all(size <= 1 or step == want for size, step, want in zip(meta.shape, meta.strides, wanted, strict=True))


def contiguous(shape: Sequence[int], dtype: str) -> TensorMeta:
    """Metadata of a tensor of its own in row-major order."""
    return TensorMeta(tuple(shape), dense_strides(shape, tuple(range(len(shape), 0, -1))), 0, dtype)


def byte_size(meta: TensorMeta) -> int:
    """Bytes of a tensor's elements."""
    return math.prod(meta.shape) * ITEM_SIZES[meta.dtype]
