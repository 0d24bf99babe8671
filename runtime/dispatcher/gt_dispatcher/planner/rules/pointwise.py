"""Operators that work element by element, with broadcasting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.shards import byte_size
from gt_dispatcher.planner.strategy import Rule, Strategy
from gt_protocol.operators import Operator, OperatorTable
from gt_protocol.placements import Partial, Placement, Replicate, Shard

#: Work element by element although no tag says so.
UNTAGGED: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("copy_", "copy", "_to_copy", "zero_", "fill.Scalar", "fill.Tensor", "fill_.Scalar", "fill_.Tensor"),
        *("elu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish", "hardswish_backward"),
        *("hardtanh_backward", "leaky_relu_backward", "log_sigmoid_forward", "log_sigmoid_backward"),
        *("mish_backward", "softplus_backward", "softshrink_backward", "_prelu_kernel", "_prelu_kernel_backward"),
        *("floor_divide", "floor_divide.Scalar", "rsub.Tensor", "complex"),
    )
)

#: Take an operand's shape and type, never its values.
LIKE: Final = frozenset({"aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::empty_like"})


def is_pointwise(operator: Operator, operators: OperatorTable) -> bool:
    """Whether an operator works element by element; what writes in place does if its twin that does not write does."""
    if operator.pointwise or operator.name in UNTAGGED or operator.name in LIKE:
        return True
    base, dot, overload = operator.name.partition(".")
    twin = operators.get(base.removesuffix("_") + dot + overload) if base.endswith("_") else None
    return twin is not None and twin.pointwise


def aligned(place: Placement, shape: Sequence[int], result: Sequence[int]) -> Placement:
    """Placement of an operand that goes with the placement of the result that it is broadcast to."""
    if not isinstance(place, Shard):
        return Replicate()
    axis = place.axis - (len(result) - len(shape))
    return Shard(axis) if axis >= 0 and shape[axis] == result[place.axis] else Replicate()


def broadcasts(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Whether a shape broadcasts to another one."""
    extra = len(result) - len(shape)
    return extra >= 0 and all(size in (1, want) for size, want in zip(shape, result[extra:], strict=True))


def best_place(instruction: Instruction, result: Sequence[int]) -> Placement:
    """The placement of a result for which the fewest bytes of its operands move.

    Raises:
        NoRule: No operand's placement can be the result's.
    """
    votes: Counter[int] = Counter()
    for operand, meta in enumerate(instruction.metas):
        axis = instruction.shard_axis(operand)
        if axis is not None:
            wanted = axis + len(result) - len(meta.shape)
            if aligned(Shard(wanted), meta.shape, result) == Shard(axis):
                votes[wanted] += 1 + byte_size(meta)
    if not votes:
        raise NoRule("the split axis is broadcast")
    return Shard(max(votes, key=lambda axis: (votes[axis], -axis)))


def pointwise(instruction: Instruction) -> Strategy:
    """Any operator that works element by element."""
    if instruction.writes:
        return _in_place(instruction)
    shapes = {output.meta.shape for output in instruction.new}
    if len(shapes) != 1:
        raise NoRule("the results differ in shape")
    result = shapes.pop()
    places, count = instruction.places, len(instruction.new)
    if any(isinstance(place, Partial) for place in places):
        return Strategy(places, (Partial("sum"),) * count)
    _check_shapes(instruction, result)
    place = best_place(instruction, result)
    return Strategy(tuple(aligned(place, meta.shape, result) for meta in instruction.metas), (place,) * count)


def _in_place(instruction: Instruction) -> Strategy:
    """The other operands go to where the target lies."""
    target = instruction.writes[0]
    place, result = instruction.places[target], instruction.shape(target)
    _check_shapes(instruction, result)
    wanted = tuple(aligned(place, meta.shape, result) for meta in instruction.metas)
    return Strategy(wanted, (place,) * len(instruction.new))


def _check_shapes(instruction: Instruction, result: Sequence[int]) -> None:
    if not all(broadcasts(meta.shape, result) for meta in instruction.metas):
        raise NoRule("an operand does not broadcast to the result")


def like(instruction: Instruction) -> Strategy:
    """A new tensor of an operand's shape follows it; the values of a partial operand do not matter."""
    place = instruction.places[0]
    if any(output.meta.shape != instruction.shape(0) for output in instruction.new):
        raise NoRule("the result has another shape")
    return Strategy(instruction.places, (Replicate() if isinstance(place, Partial) else place,))


RULES: Final[Mapping[str, Rule]] = dict.fromkeys(LIKE, like)
