"""Fused attention: each batch entry and each head is by itself.

Operators with dropout inside must not arrive here with a probability above zero: the numbers would depend on how the
tensors are split. The client sends such attention as its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.axes import Axes, Names, Result, by_axes
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.strategy import Rule, Strategy
from gt_protocol.blocks import NewTensor

_FULL: Final[Names] = ("b", "h", "", "")


def _names(instruction: Instruction, operand: int, query: int) -> Names:
    """Names of an operand: batch and heads where it has as many of them as the query; a bias is broadcast."""
    shape, wanted = instruction.shape(operand), instruction.shape(query)
    if shape[:2] == wanted[:2] and len(shape) in (3, 4):
        return _FULL[: len(shape)]
    names = _FULL[4 - len(shape) :] if len(shape) < 4 else _FULL
    leading = wanted[4 - len(shape) : 2] if len(shape) < 4 else wanted[:2]
    return tuple(
        name if axis >= len(leading) or shape[axis] == leading[axis] else "" for axis, name in enumerate(names)
    )


def _check(instruction: Instruction, query: int, key: int, value: int) -> None:
    shapes = [instruction.shape(operand) for operand in (query, key, value)]
    if any(len(shape) != 4 or shape[:2] != shapes[0][:2] for shape in shapes):
        raise NoRule("query, key and value differ in batch or heads")


def _result(instruction: Instruction, output: NewTensor, query: int) -> Result:
    shape = output.meta.shape
    if len(shape) >= 3 and shape[:2] == instruction.shape(query)[:2]:
        return Result(_FULL[: len(shape)])
    return Result(("",) * len(shape))


def attention(instruction: Instruction) -> Strategy:
    """`_scaled_dot_product_fused_attention_overrideable(query, key, value, bias, ...)`."""
    query, key, value = (instruction.tensor(position) for position in range(3))
    _check(instruction, query, key, value)
    inputs = tuple(_names(instruction, operand, query) for operand in range(len(instruction.operands)))
    results = tuple(_result(instruction, output, query) for output in instruction.new)
    return by_axes(instruction, Axes(inputs, results, solid=frozenset({"b", "h"})))


def attention_backward(instruction: Instruction) -> Strategy:
    """The same, `backward(grad, query, key, value, bias, mask, output, logsumexp, ...)`.

    The gradient of a bias that all batch entries or heads share is a sum over them.
    """
    query, key, value = (instruction.tensor(position) for position in range(1, 4))
    _check(instruction, query, key, value)
    inputs = tuple(_names(instruction, operand, query) for operand in range(len(instruction.operands)))
    results: list[Result] = []
    for position, output in enumerate(instruction.call.outputs):
        if isinstance(output, NewTensor):
            bias = instruction.operand(4) if position == 3 else None
            names = _FULL if bias is None else inputs[bias]
            results.append(Result(names, frozenset({"b", "h"}).difference(names)))
    return by_axes(instruction, Axes(inputs, tuple(results), solid=frozenset({"b", "h"})))


RULES: Final[Mapping[str, Rule]] = {
    "aten::_scaled_dot_product_fused_attention_overrideable": attention,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": attention_backward,
}
