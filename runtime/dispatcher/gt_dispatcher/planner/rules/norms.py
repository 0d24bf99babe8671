"""Normalisation by layers and groups, and batch normalisation that does not need the whole batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.axes import Axes, Names, Result, by_axes, labelled
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.rules import batch_norm
from gt_dispatcher.planner.shards import chunk_sizes
from gt_dispatcher.planner.strategy import LocalArgument, Rule, Strategy
from gt_protocol.arguments import Const
from gt_protocol.blocks import NewTensor


def layer_norm(instruction: Instruction) -> Strategy:
    """`native_layer_norm(input, normalized_shape, weight, bias, eps)`: the other axes can be split."""
    names = _outer_names(instruction, 0, 1)
    inputs: tuple[Names, ...] = (names, *(("",) * len(meta.shape) for meta in instruction.metas[1:]))
    results = tuple(Result(names[: len(output.meta.shape)]) for output in instruction.new)
    return by_axes(instruction, Axes(inputs, results))


def layer_norm_backward(instruction: Instruction) -> Strategy:
    """`native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, mask)`."""
    names = _outer_names(instruction, 1, 2)
    inputs = (names,) * 4 + tuple(("",) * len(meta.shape) for meta in instruction.metas[4:])
    rows = frozenset(names) - {""}
    inner = ("",) * len(instruction.integers(2) or ())
    results = (Result(names), Result(inner, rows), Result(inner, rows))
    wanted = tuple(
        result
        for result, output in zip(results, instruction.call.outputs, strict=True)
        if isinstance(output, NewTensor)
    )
    return by_axes(instruction, Axes(inputs, wanted))


def _outer_names(instruction: Instruction, operand: int, shape_at: int) -> Names:
    rank = len(instruction.shape(operand))
    normalized = len(instruction.integers(shape_at) or ())
    return labelled(rank, without=tuple(range(rank - normalized, rank)))


def group_norm(instruction: Instruction) -> Strategy:
    """`native_group_norm(input, weight, bias, batch, ...)`: the batch can be split."""
    inputs: tuple[Names, ...] = tuple(
        ("n",) + ("",) * (len(meta.shape) - 1) if operand == 0 else ("",)
        for operand, meta in enumerate(instruction.metas)
    )
    results = tuple(Result(("n",) + ("",) * (len(output.meta.shape) - 1)) for output in instruction.new)
    axes = Axes(inputs, results, solid=frozenset({"n"}), local=lambda _: {3: _batch(instruction, 3)})
    return by_axes(instruction, axes)


def group_norm_backward(instruction: Instruction) -> Strategy:
    """`native_group_norm_backward(grad, input, mean, rstd, weight, batch, ...)`."""
    inputs: tuple[Names, ...] = tuple(
        ("n",) + ("",) * (len(meta.shape) - 1) if operand < 4 else ("",)
        for operand, meta in enumerate(instruction.metas)
    )
    whole = ("n",) + ("",) * (len(instruction.shape(0)) - 1)
    results = (Result(whole), Result(("",), frozenset({"n"})), Result(("",), frozenset({"n"})))
    wanted = tuple(
        result
        for result, output in zip(results, instruction.call.outputs, strict=True)
        if isinstance(output, NewTensor)
    )
    axes = Axes(inputs, wanted, solid=frozenset({"n"}), local=lambda _: {5: _batch(instruction, 5)})
    return by_axes(instruction, axes)


def _batch(instruction: Instruction, position: int) -> LocalArgument:
    """The argument with each worker's own number of batch entries."""
    parts = chunk_sizes(instruction.integer(position), instruction.mesh.size)
    return lambda worker: Const(parts[worker])


RULES: Final[Mapping[str, Rule]] = {
    **batch_norm.RULES,
    "aten::native_layer_norm": layer_norm,
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::native_group_norm": group_norm,
    "aten::native_group_norm_backward": group_norm_backward,
}
