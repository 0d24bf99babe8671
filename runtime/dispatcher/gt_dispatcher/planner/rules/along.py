"""Operators that work along one axis or a few, and on each index of the others by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gt_dispatcher.planner.axes import Axes, Names, Result, by_axes, labelled
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction, axis_of
from gt_dispatcher.planner.rules.factories import local_sizes
from gt_dispatcher.planner.strategy import LocalArgument, Rule, Strategy
from gt_protocol.arguments import Const, ListArg, Operand
from gt_protocol.placements import Shard

#: Position of the axes, and the axis if none is given, of operators whose results have all axes of their operands.
_ALONG: Final[Mapping[str, tuple[int, int | None]]] = {
    **dict.fromkeys(("aten::_softmax", "aten::_log_softmax", "aten::cumsum", "aten::cumprod"), (1, None)),
    **dict.fromkeys(("aten::cummax", "aten::cummin", "aten::logcumsumexp", "aten::flip"), (1, None)),
    **dict.fromkeys(("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"), (2, None)),
    **dict.fromkeys(("aten::sort", "aten::glu"), (1, -1)),
    "aten::sort.stable": (2, -1),
    "aten::topk": (2, -1),
    "aten::glu_backward": (2, -1),
}


def along(instruction: Instruction) -> Strategy:
    """Any axis but the named ones can be split."""
    position, default = _ALONG[instruction.name]
    rank = len(instruction.shape(0))
    axes = instruction.integers(position, "dim" if default is not None else "")
    if axes is None:
        axes = (default,) if default is not None else tuple(range(rank))
    names = labelled(rank, without=axes)
    if any(len(meta.shape) != rank for meta in instruction.metas):
        raise NoRule("the operands differ in rank")
    return by_axes(instruction, Axes((names,) * len(instruction.operands), (Result(names),) * len(instruction.new)))


def roll(instruction: Instruction) -> Strategy:
    """`roll(input, shifts, dims)`: without axes it rolls the flattened tensor."""
    rank = len(instruction.shape(0))
    names = labelled(rank, without=instruction.integers(2, "dims") or tuple(range(rank)))
    return by_axes(instruction, Axes((names,), (Result(names),)))


def triangle(instruction: Instruction) -> Strategy:
    """`tril` and `triu` work on the last two axes."""
    names = labelled(len(instruction.shape(0)), without=(-1, -2))
    return by_axes(instruction, Axes((names,), (Result(names),) * len(instruction.new)))


def pad(instruction: Instruction) -> Strategy:
    """`constant_pad_nd(input, pad, value)`: pairs of sizes, from the last axis on."""
    rank = len(instruction.shape(0))
    padded = len(instruction.integers(1) or ()) // 2
    names = labelled(rank, without=tuple(range(rank - padded, rank)))
    return by_axes(instruction, Axes((names,), (Result(names),)))


def repeat(instruction: Instruction) -> Strategy:
    """`repeat(input, repeats)`: axes that are repeated once can be split."""
    repeats = instruction.integers(1) or ()
    rank = len(instruction.shape(0))
    extra = len(repeats) - rank
    names = labelled(rank, without=[axis for axis in range(rank) if repeats[axis + extra] != 1])
    return by_axes(instruction, Axes((names,), (Result(("",) * extra + names),)))


def cat(instruction: Instruction) -> Strategy:
    """`cat(tensors, dim)`: any other axis can be split."""
    operands = instruction.tensors(0)
    ranks = {len(instruction.shape(operand)) for operand in operands}
    if len(ranks) != 1:
        raise NoRule("the operands differ in rank")
    names = labelled(ranks.pop(), without=(instruction.integer(1, "dim", 0),))
    return by_axes(instruction, Axes((names,) * len(operands), (Result(names),)))


def stack(instruction: Instruction) -> Strategy:
    """`stack(tensors, dim)`: a new axis, the others can be split."""
    operands = instruction.tensors(0)
    rank = len(instruction.shape(0))
    names = labelled(rank)
    at = axis_of(instruction.integer(1, "dim", 0), rank + 1)
    return by_axes(instruction, Axes((names,) * len(operands), (Result((*names[:at], "", *names[at:])),)))


def index_select(instruction: Instruction) -> Strategy:
    """`index_select(input, dim, index)`: another axis can be split, or the index."""
    rank = len(instruction.shape(0))
    dim = axis_of(instruction.integer(1), rank)
    if rank == 0:
        raise NoRule("an input without axes")
    names = labelled(rank, without=(dim,))
    result = tuple("i" if axis == dim else name for axis, name in enumerate(names))
    index: Names = ("i",) if instruction.shape(1) else ()
    return by_axes(instruction, Axes((names, index), (Result(result),)))


def index(instruction: Instruction) -> Strategy:
    """`index(input, indices)` by one tensor of integers: other axes can be split, or the index."""
    argument = instruction.argument(1)
    if not isinstance(argument, ListArg):
        raise NoRule("no list of indices")
    at = [axis for axis, item in enumerate(argument.items) if isinstance(item, Operand)]
    nothing = all(isinstance(item, Operand) or item == Const(None) for item in argument.items)
    if len(at) != 1 or not nothing or instruction.metas[1].dtype in ("bool", "uint8"):
        raise NoRule("indexed by more than one tensor of integers")
    names = labelled(len(instruction.shape(0)), without=at)
    picked = labelled(len(instruction.shape(1)), "i")
    result = (*names[: at[0]], *picked, *names[at[0] + 1 :])
    return by_axes(instruction, Axes((names, picked), (Result(result),)))


def gather(instruction: Instruction) -> Strategy:
    """`gather(input, dim, index)` and `scatter(input, dim, index, ...)`: axes that all operands have alike."""
    rank = len(instruction.shape(0))
    dim = axis_of(instruction.integer(1), rank)
    shapes = [meta.shape for meta in instruction.metas]
    if any(len(shape) != rank for shape in shapes):
        raise NoRule("the operands differ in rank")
    unlike = [axis for axis in range(rank) if len({shape[axis] for shape in shapes}) > 1]
    names = labelled(rank, without=[dim, *unlike])
    return by_axes(instruction, Axes((names,) * len(shapes), (Result(names),) * len(instruction.new)))


def select_backward(instruction: Instruction) -> Strategy:
    """`select_backward(grad, input_sizes, dim, index)`: the axes but the one that was dropped can be split."""
    meta = instruction.new[0].meta
    rank = len(meta.shape)
    dim = axis_of(instruction.integer(2), rank)
    names = labelled(rank, without=(dim,))
    grad = names[:dim] + names[dim + 1 :]
    return by_axes(instruction, Axes((grad,), (Result(names),), local=_sizes(instruction, names)))


def slice_backward(instruction: Instruction) -> Strategy:
    """`slice_backward(grad, input_sizes, dim, start, end, step)`: the axes but the one that was cut can be split."""
    rank = len(instruction.shape(0))
    names = labelled(rank, without=(instruction.integer(2),))
    return by_axes(instruction, Axes((names,), (Result(names),), local=_sizes(instruction, names)))


def _sizes(instruction: Instruction, names: Names) -> Callable[[str], Mapping[int, LocalArgument]]:
    """The sizes of the result, the second argument, on each worker."""
    meta = instruction.new[0].meta
    return lambda name: {1: local_sizes(instruction, meta, Shard(names.index(name)))}


_SCATTERS: Final = ("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add")

RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_ALONG, along),
    **dict.fromkeys(("aten::tril", "aten::triu", "aten::tril_", "aten::triu_"), triangle),
    **dict.fromkeys((f"aten::{name}" for name in _SCATTERS), gather),
    **dict.fromkeys((f"aten::{name.replace('.', '_.') if '.' in name else name + '_'}" for name in _SCATTERS), gather),
    "aten::gather": gather,
    "aten::cat": cat,
    "aten::constant_pad_nd": pad,
    "aten::index.Tensor": index,
    "aten::index_select": index_select,
    "aten::repeat": repeat,
    "aten::roll": roll,
    "aten::select_backward": select_backward,
    "aten::slice_backward": slice_backward,
    "aten::stack": stack,
}
