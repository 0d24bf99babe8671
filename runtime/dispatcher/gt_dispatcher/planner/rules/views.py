"""Views: where a split axis of the base comes to lie in the view.

A view must be a view of what each worker holds. Where it can't be, the rule does not apply, and the whole storage is
replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction, axis_of
from gt_dispatcher.planner.rules.factories import local_sizes, sizes_argument
from gt_dispatcher.planner.shards import chunk_sizes
from gt_dispatcher.planner.strategy import LocalArgument, Strategy
from gt_protocol.placements import Shard


@dataclass(frozen=True)
class AxisMove:
    """Where the split axis of a view's base goes.

    Attributes:
        axis: The axis in the view.
        sizes_at: Position of an argument with the view's sizes, or -1.
        local: Other arguments that differ on the workers.
        op: Operator to call locally, if it is another.
    """

    axis: int
    sizes_at: int = -1
    local: Mapping[int, LocalArgument] = field(default_factory=dict)
    op: str = ""


#: (instruction, split axis, shape of the base) -> where the axis goes.
AxisRule: TypeAlias = Callable[[Instruction, int, tuple[int, ...]], AxisMove]


def view(instruction: Instruction) -> Strategy:
    """Any view, of a base that is split or partial."""
    base = instruction.places[0]
    count = len(instruction.new)
    if len(instruction.operands) != 1:
        raise NoRule("not a view of one tensor")
    if not isinstance(base, Shard):
        return Strategy((base,), (base,) * count)
    rule = _AXIS_RULES.get(instruction.name)
    if rule is None:
        raise NoRule("no rule for this view of a split tensor")
    base, move = _placed_move(instruction, rule, base)
    place = Shard(move.axis)
    local = dict(move.local)
    if move.sizes_at >= 0:
        local[move.sizes_at] = local_sizes(instruction, instruction.new[0].meta, place)
    return Strategy((base,), (place,) * count, local, move.op)


def _placed_move(instruction: Instruction, rule: AxisRule, base: Shard) -> tuple[Shard, AxisMove]:
    """Where the split axis goes; what may be a copy may be split along another axis first.

    The last axis is none of these: whatever comes after works along it, and would need it whole.

    Raises:
        NoRule: No axis will do.
    """
    shape = instruction.shape(0)
    try:
        return base, rule(instruction, base.axis, shape)
    except NoRule:
        if instruction.new[0].base >= 0:
            raise
        for axis in range(len(shape)):
            if axis != base.axis:
                with suppress(NoRule):
                    move = rule(instruction, axis, shape)
                    if move.axis < len(instruction.new[0].meta.shape) - 1:
                        return Shard(axis), move
        raise


def _same(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    return AxisMove(axis)


def _transpose(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    first, second = axis_of(instruction.integer(1), len(shape)), axis_of(instruction.integer(2), len(shape))
    return AxisMove({first: second, second: first}.get(axis, axis))


def _t(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    return AxisMove(len(shape) - 1 - axis)


def _permute(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    order = [axis_of(item, len(shape)) for item in instruction.integers(1, "dims") or ()]
    return AxisMove(order.index(axis))


def _unsqueeze(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    at = axis_of(instruction.integer(1, "dim"), len(shape) + 1)
    return AxisMove(axis + (at <= axis))


def _squeeze(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    """Names the axes: a worker's part may have axes of size 1 that the whole has not."""
    named = instruction.integers(1, "dim")
    candidates = range(len(shape)) if named is None else [axis_of(item, len(shape)) for item in named]
    dropped = tuple(item for item in candidates if shape[item] == 1)
    if axis in dropped:
        raise NoRule("the split axis is dropped")
    dims = sizes_argument(dropped)
    return AxisMove(axis - sum(item < axis for item in dropped), local={1: lambda _: dims}, op="aten::squeeze.dims")


def _expand(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    result = instruction.new[0].meta.shape
    moved = axis + len(result) - len(shape)
    if result[moved] != shape[axis]:
        raise NoRule("the split axis is broadcast")
    return AxisMove(moved, sizes_at=1)


def _select(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    return _dropping(axis, axis_of(instruction.integer(1, "dim"), len(shape)))


def _unbind(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    return _dropping(axis, axis_of(instruction.integer(1, "dim", 0), len(shape)))


def _dropping(axis: int, dropped: int) -> AxisMove:
    if axis == dropped:
        raise NoRule("the split axis is cut")
    return AxisMove(axis - (dropped < axis))


def _slice(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    cut = axis_of(instruction.integer(1, "dim", 0), len(shape))
    step = instruction.integer(4, "step", 1)
    if cut == axis and (step != 1 or instruction.new[0].meta.shape[axis] != shape[axis]):
        raise NoRule("the split axis is cut")
    return AxisMove(axis)


def _split(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    if axis == axis_of(instruction.integer(2, "dim", 0), len(shape)):
        raise NoRule("the split axis is cut")
    return AxisMove(axis)


def _diagonal(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    rank = len(shape)
    pair = axis_of(instruction.integer(2, "dim1", 0), rank), axis_of(instruction.integer(3, "dim2", 1), rank)
    if axis in pair:
        raise NoRule("the split axis is part of the diagonal")
    return AxisMove(axis - sum(item < axis for item in pair))


def _unfold(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    if axis == axis_of(instruction.integer(1, "dimension"), len(shape)):
        raise NoRule("the split axis is unfolded")
    return AxisMove(axis)


def _not_last(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    if axis == len(shape) - 1:
        raise NoRule("the split axis changes its meaning")
    return AxisMove(axis)


def reshaped_axis(axis: int, shape: Sequence[int], result: Sequence[int], parts: int) -> int:
    """The axis of a reshaped tensor along which each worker's part is its part of the original.

    Raises:
        NoRule: There is none: the parts end within an element of every axis, or at other places than they should.
    """
    before = _product(shape[:axis])
    inner = _product(shape[axis + 1 :])
    chunks = chunk_sizes(shape[axis], parts)
    for moved in range(len(result)):
        if _product(result[:moved]) == before and shape[axis] * inner > 0:
            rest = _product(result[moved + 1 :])
            wanted = [size * rest for size in chunk_sizes(result[moved], parts)]
            if wanted == [size * inner for size in chunks]:
                return moved
    raise NoRule(f"a shape of {tuple(shape)} split along axis {axis} can't be viewed as {tuple(result)}")


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _reshape(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    result = instruction.new[0].meta.shape
    return AxisMove(reshaped_axis(axis, shape, result, instruction.mesh.size), sizes_at=1)


def _flatten(instruction: Instruction, axis: int, shape: tuple[int, ...]) -> AxisMove:
    return AxisMove(reshaped_axis(axis, shape, instruction.new[0].meta.shape, instruction.mesh.size))


_AXIS_RULES: Final[Mapping[str, AxisRule]] = {
    **dict.fromkeys(("aten::detach", "aten::alias", "aten::_conj", "aten::_neg_view", "aten::lift_fresh"), _same),
    **dict.fromkeys(("aten::view_as_real", "aten::positive"), _same),
    **dict.fromkeys(("aten::view", "aten::_unsafe_view", "aten::reshape"), _reshape),
    **dict.fromkeys(("aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"), _squeeze),
    **dict.fromkeys(("aten::split.Tensor", "aten::split_with_sizes", "aten::chunk"), _split),
    "aten::diagonal": _diagonal,
    "aten::expand": _expand,
    "aten::flatten.using_ints": _flatten,
    "aten::permute": _permute,
    "aten::select.int": _select,
    "aten::slice.Tensor": _slice,
    "aten::t": _t,
    "aten::transpose.int": _transpose,
    "aten::unbind.int": _unbind,
    "aten::unfold": _unfold,
    "aten::unsqueeze": _unsqueeze,
    "aten::view.dtype": _not_last,
    "aten::view_as_complex": _not_last,
}

#: Views that only choose or reorder elements, so that a view of a partial sum is one.
LINEAR_VIEWS: Final = frozenset(_AXIS_RULES) - {"aten::view.dtype", "aten::positive"} | {"aten::as_strided"}

RULES: Final = dict.fromkeys(_AXIS_RULES, view)
