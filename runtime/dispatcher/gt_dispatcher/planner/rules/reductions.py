"""Sums, means and other reductions over axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gt_dispatcher.planner.axes import Axes, Result, by_axes, labelled
from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import alike
from gt_dispatcher.planner.instruction import Instruction, axis_of
from gt_dispatcher.planner.redistribution import replicate
from gt_dispatcher.planner.shards import contiguous, has_empty_shard
from gt_dispatcher.planner.strategy import Custom, Rule, Strategy
from gt_protocol.arguments import Const, Operand
from gt_protocol.placements import Partial, Replicate, Shard


class Signature(NamedTuple):
    """Where a reduction takes its axes.

    Attributes:
        dims: Position of the axes, or -1 if it always reduces all.
        name: Name of that argument.
        keepdim: Position of the flag that keeps the axes, with size 1.
        default: The axis if none is given; None for all.
    """

    dims: int
    name: str = "dim"
    keepdim: int = 2
    default: int | None = None


#: Reductions whose parts add up.
_SUMS: Final = {
    "aten::sum": Signature(-1),
    "aten::sum.dim_IntList": Signature(1),
    "aten::nansum": Signature(1),
    "aten::count_nonzero.dim_IntList": Signature(1, keepdim=-1),
}

_MEANS: Final = {"aten::mean": Signature(-1), "aten::mean.dim": Signature(1)}

#: Reductions that need all of the axes that they reduce.
_OTHERS: Final = {
    **dict.fromkeys(("aten::amax", "aten::amin", "aten::logsumexp", "aten::any.dims", "aten::all.dims"), Signature(1)),
    **dict.fromkeys(("aten::any.dim", "aten::all.dim", "aten::prod.dim_int"), Signature(1)),
    **dict.fromkeys(("aten::max.dim", "aten::min.dim", "aten::median.dim", "aten::nanmedian.dim"), Signature(1)),
    **dict.fromkeys(("aten::argmax", "aten::argmin"), Signature(1)),
    "aten::mode": Signature(1, default=-1),
    "aten::kthvalue": Signature(2, keepdim=3, default=-1),
    **dict.fromkeys(("aten::var.correction", "aten::std.correction"), Signature(1)),
    **dict.fromkeys(("aten::var_mean.correction", "aten::std_mean.correction"), Signature(1)),
    "aten::linalg_vector_norm": Signature(2, keepdim=3),
    "aten::norm.ScalarOpt_dim": Signature(2, keepdim=3),
}


def reduced_axes(instruction: Instruction, signature: Signature) -> tuple[int, ...]:
    """The axes that are reduced, counted from the front."""
    rank = len(instruction.shape(0))
    dims = instruction.integers(signature.dims, signature.name) if signature.dims >= 0 else None
    if not dims:
        return tuple(range(rank)) if signature.default is None else (axis_of(signature.default, rank),)
    return tuple(axis_of(axis, rank) for axis in dims)


def _names(instruction: Instruction, reduced: Sequence[int]) -> tuple[str, ...]:
    """Names of the result's axes: what is reduced is gone, or stays with size 1."""
    rank = len(instruction.shape(0))
    kept = len(instruction.new[0].meta.shape) == rank and rank > 0
    names = labelled(rank)
    return tuple("" if axis in reduced else name for axis, name in enumerate(names) if kept or axis not in reduced)


def total(instruction: Instruction) -> Strategy:
    """A sum: over a split axis, the parts add up."""
    if isinstance(instruction.places[0], Partial):
        return Strategy(instruction.places, (Partial("sum"),))
    reduced = reduced_axes(instruction, _SUMS[instruction.name])
    names = labelled(len(instruction.shape(0)))
    result = Result(_names(instruction, reduced), frozenset(names[axis] for axis in reduced))
    return by_axes(instruction, Axes((names,), (result,)))


def mean(instruction: Instruction) -> Strategy | Custom:
    """A mean: over a split axis, a sum divided by the number of all elements, whatever each worker has."""
    reduced = reduced_axes(instruction, _MEANS[instruction.name])
    place = instruction.places[0]
    if not isinstance(place, Shard) or place.axis not in reduced:
        return _apart(instruction, reduced)
    if instruction.new[0].meta.dtype not in ("float32", "float64"):
        raise NoRule("a sum of this type may overflow where the mean does not")

    def emit(draft: Draft, instruction: Instruction) -> list[Value]:
        op = "aten::sum.dim_IntList" if instruction.name == "aten::mean.dim" else "aten::sum"
        summed = draft.call(instruction.mesh, op, instruction.call.args, instruction.call.kwargs)
        count = 1
        for axis in reduced:
            count *= instruction.shape(0)[axis]
        register = draft.call(instruction.mesh, "aten::div.Scalar", (Operand(summed), Const(count)))
        made = Value(register, instruction.mesh, (Partial("sum"),), instruction.new[0].meta)
        empty = has_empty_shard(instruction.shape(0), instruction.mesh, (place,))
        return [alike(draft, made) if empty else made]

    return Custom(emit)


def other(instruction: Instruction) -> Strategy:
    """A reduction that needs all of the axes that it reduces."""
    return _apart(instruction, reduced_axes(instruction, _OTHERS[instruction.name]))


def _apart(instruction: Instruction, reduced: Sequence[int]) -> Strategy:
    names = labelled(len(instruction.shape(0)), without=reduced)
    result = Result(_names(instruction, reduced))
    return by_axes(instruction, Axes((names,), (result,) * len(instruction.new)))


def in_two_stages(instruction: Instruction) -> Custom:
    """A reduction to one number that may be done on each worker first, and then on the numbers of all workers.

    Raises:
        NoRule: A worker has nothing to reduce.
    """
    if has_empty_shard(instruction.shape(0), instruction.mesh, instruction.places[:1]):
        raise NoRule("a worker has nothing to reduce")

    def emit(draft: Draft, instruction: Instruction) -> list[Value]:
        mesh, meta = instruction.mesh, instruction.new[0].meta
        part = draft.call(mesh, instruction.name, instruction.call.args, instruction.call.kwargs)
        row = draft.call(mesh, "aten::unsqueeze", (Operand(part), Const(0)))
        parts = Value(row, mesh, (Shard(0),), contiguous((mesh.size,), meta.dtype))
        whole = replicate(draft, parts, mesh)
        register = draft.call(mesh, instruction.name, (Operand(whole.register),))
        return [Value(register, mesh, (Replicate(),), meta)]

    return Custom(emit)


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_SUMS, total),
    **dict.fromkeys(_MEANS, mean),
    **dict.fromkeys(_OTHERS, other),
    **dict.fromkeys(("aten::max", "aten::min", "aten::any", "aten::all"), in_two_stages),
}
