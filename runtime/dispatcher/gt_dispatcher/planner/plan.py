"""What the planner answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gt_dispatcher.planner.layout import Layout, Mesh
from gt_protocol.errors import ShardingError
from gt_protocol.placements import Placement, Replicate, Shard
from gt_protocol.programs import Routine


@dataclass(frozen=True)
class Traffic:
    """Bytes that one collective of a plan moves.

    Attributes:
        kind: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all` or `broadcast`.
        bytes: Bytes of the tensor that it works on, on one worker.
        workers: The group.
    """

    kind: str
    bytes: int
    workers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """One instruction, planned for one set of operand layouts.

    Attributes:
        routines: What each worker does. Workers that have nothing to do are left out. All routines have the
            instruction's operands as inputs and its new tensors as outputs, in order; a worker that lacks an input, or
            that makes no output, has a register number there all the same and never touches it.
        outputs: Layouts of the new tensors.
        traffic: The collectives used.
        fallback: Why the instruction runs on replicated inputs although they are sharded, or empty.
        number: Set by the core: the number under which the routines are defined at the workers.
    """

    routines: Mapping[int, Routine]
    outputs: tuple[Layout, ...]
    traffic: tuple[Traffic, ...] = ()
    fallback: str = ""
    number: int = field(default=-1, compare=False)


class Change(Enum):
    """How a storage must change before an instruction can be planned."""

    REDUCE = "reduce"
    """Partial sums become whole, in place, for every tensor of the storage."""
    REPLICATE = "replicate"
    """Each worker of the mesh gets the whole storage, for every tensor of it."""


@dataclass(frozen=True)
class Prepare:
    """The instruction can be planned once an operand's storage has changed.

    Attributes:
        operand: Which operand.
        change: What must happen to its storage.
    """

    operand: int
    change: Change


@dataclass(frozen=True)
class Region:
    """Where the innermost signal with a rule wants its work done.

    Attributes:
        mesh: Workers that the region's instructions run on.
        placements: Placement of tensors made in it by factories and uploads, or None to replicate.
    """

    mesh: Mesh
    placements: tuple[Placement, ...] | None

    def placements_for(self, shape: tuple[int, ...]) -> tuple[Placement, ...]:
        """The placements of a tensor of this shape, with axes counted from the front.

        Raises:
            ShardingError: An axis is beyond the tensor's.
        """
        rank = len(shape)
        placements: list[Placement] = []
        for placement in self.placements or (Replicate(),) * len(self.mesh.shape):
            if isinstance(placement, Shard):
                if not -rank <= placement.axis < rank:
                    raise ShardingError(
                        f"shard({placement.axis}) of a tensor of shape {shape}: "
                        f"there is no axis {placement.axis}; use {-rank} to {rank - 1}"
                        if rank
                        else f"shard({placement.axis}) of a tensor without axes; replicate it instead"
                    )
                placement = Shard(placement.axis % rank)
            placements.append(placement)
        return tuple(placements)
