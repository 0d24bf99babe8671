"""Where a tensor is: mesh, placements and global metadata, interned so that a layout is one small number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gt_protocol.blocks import TensorMeta
from gt_protocol.placements import Partial, Placement, Replicate


@dataclass(frozen=True)
class Mesh:
    """An ordered grid of workers.

    Attributes:
        workers: Their indices, row-major over `shape`.
        shape: Size of each mesh dimension.
        names: Name of each mesh dimension; only for reports, a mesh is the same whatever they are.
    """

    workers: tuple[int, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if math.prod(self.shape) != len(self.workers):
            raise ValueError(f"a mesh of shape {self.shape} has not {len(self.workers)} workers")

    @classmethod
    def single(cls, worker: int) -> Mesh:
        """A mesh of one worker."""
        return cls((worker,), (1,))

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self.workers)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where a tensor is. Interned by `LayoutTable`: equal layouts are the same object.

    Attributes:
        id: Number of the layout, unique within the table.
        mesh: The workers that hold it.
        placements: One for each dimension of the mesh.
        meta: Global shape, strides, offset and element type.
        partial: Whether a placement is a partial result.
        whole: Whether each worker of the mesh holds the whole value.
    """

    id: int
    mesh: Mesh
    placements: tuple[Placement, ...]
    meta: TensorMeta
    partial: bool = field(init=False)
    whole: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partial", any(isinstance(place, Partial) for place in self.placements))
        whole = self.mesh.size == 1 or all(isinstance(place, Replicate) for place in self.placements)
        object.__setattr__(self, "whole", whole)


class LayoutTable:
    """Interns layouts."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[Mesh, tuple[Placement, ...], TensorMeta], Layout] = {}
        self._next = 0

    def get(self, mesh: Mesh, placements: tuple[Placement, ...], meta: TensorMeta) -> Layout:
        """The layout of these properties. On one worker, every placement is `Replicate`."""
        if mesh.size == 1:
            placements = (Replicate(),) * len(mesh.shape)
        key = (mesh, placements, meta)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(self._next, mesh, placements, meta)
            self._next += 1
        return layout

    def replicated(self, mesh: Mesh, meta: TensorMeta) -> Layout:
        """The layout with the whole value on each worker."""
        return self.get(mesh, (Replicate(),) * len(mesh.shape), meta)

    def __len__(self) -> int:
        """Number of layouts known."""
        return len(self._layouts)
