"""Operators that make tensors out of nothing: they follow the region that they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.draft import PlanContext, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import local_calls, values_of
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.plan import Plan, Region
from gt_dispatcher.planner.redistribution import redistribute
from gt_dispatcher.planner.shards import dense_strides, local_shape
from gt_dispatcher.planner.strategy import LocalArgument, Rule, Strategy
from gt_protocol.arguments import Argument, Const, ListArg
from gt_protocol.blocks import TensorMeta
from gt_protocol.placements import Placement, Replicate, Shard

#: Position of the sizes in factories that fill with a constant, or not at all: each worker makes its own shard.
CONSTANT: Final[Mapping[str, int]] = dict.fromkeys(
    ("aten::zeros", "aten::ones", "aten::full", "aten::empty.memory_format", "aten::empty_strided"), 0
)

#: The same with an operand, of which only the type counts.
NEW: Final = frozenset(
    {"aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::new_empty", "aten::new_empty_strided"}
)


def sizes_argument(sizes: tuple[int, ...]) -> Argument:
    """Sizes as an argument."""
    return ListArg(tuple(Const(size) for size in sizes))


def local_sizes(instruction: Instruction, meta: TensorMeta, place: Placement) -> LocalArgument:
    """The argument with each worker's own sizes of a result."""
    shape = instruction.mesh.shape
    return lambda position: sizes_argument(local_shape(meta.shape, shape, (place,), position))


def local_strides(instruction: Instruction, meta: TensorMeta, place: Placement) -> LocalArgument:
    """The argument with the strides of each worker's own part of a result, without gaps."""
    shape = instruction.mesh.shape

    def make(position: int) -> Argument:
        return sizes_argument(dense_strides(local_shape(meta.shape, shape, (place,), position), meta.strides))

    return make


def plan_factory(context: PlanContext, instruction: Instruction, region: Region | None) -> Plan:
    """Plans an operator without tensor operands: whole, or split as the region says.

    Random numbers are drawn for the whole tensor on each worker, from the same seed, so that they do not depend on how
    it is split.

    Raises:
        ShardingError: The region's placements do not fit the result.
    """
    draft = instruction.draft(context)
    mesh = instruction.mesh
    metas = [output.meta for output in instruction.new]
    # A region's placements are for tensors that have axes; a lone number in it has nothing to split.
    places = [
        region.placements_for(meta.shape)[0] if region is not None and meta.shape and mesh.size > 1 else Replicate()
        for meta in metas
    ]
    if instruction.name in CONSTANT and len(metas) == 1 and isinstance(places[0], Shard):
        local = _local_arguments(instruction, metas[0], places[0], CONSTANT[instruction.name])
        return draft.finish(values_of(instruction, local_calls(draft, instruction, (), local), places))
    results = local_calls(draft, instruction, ())
    whole = [Value(register, mesh, (Replicate(),), meta) for register, meta in zip(results, metas, strict=True)]
    return draft.finish(
        [redistribute(draft, value, mesh, (place,)) for value, place in zip(whole, places, strict=True)]
    )


def _local_arguments(instruction: Instruction, meta: TensorMeta, place: Placement, at: int) -> dict[int, LocalArgument]:
    local = {at: local_sizes(instruction, meta, place)}
    if instruction.name.endswith("_strided"):
        local[at + 1] = local_strides(instruction, meta, place)
    return local


def new_tensor(instruction: Instruction) -> Strategy:
    """`new_zeros` and its kin: split like the operand if it has the same shape, else whole."""
    if len(instruction.operands) != 1:
        raise NoRule("the fill value is a tensor")
    place, meta = instruction.places[0], instruction.new[0].meta
    if isinstance(place, Shard) and meta.shape == instruction.shape(0):
        return Strategy(instruction.places, (place,), _local_arguments(instruction, meta, place, 1))
    return Strategy(instruction.places, (Replicate(),))


RULES: Final[Mapping[str, Rule]] = dict.fromkeys(NEW, new_tensor)
