"""Losses, forward and backward.

A mean loss is the sum of each worker's part over the number of elements of the whole batch, never a mean of means:
that would be wrong for uneven parts, and a factor of the mesh's size off in the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.axes import labelled
from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import rewire
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.redistribution import redistribute, replicate
from gt_dispatcher.planner.rules.pointwise import aligned, best_place
from gt_dispatcher.planner.strategy import Custom, Rule, Strategy
from gt_protocol.arguments import Argument, Const, Operand
from gt_protocol.placements import Partial, Placement, Replicate, Shard

NONE, MEAN, SUM = 0, 1, 2

#: Position of the argument that says how a loss of one value for each element is reduced; 1 is the mean.
_ELEMENTWISE: Final[Mapping[str, int]] = {
    "aten::mse_loss": 2,
    "aten::smooth_l1_loss": 2,
    "aten::huber_loss": 2,
    "aten::soft_margin_loss": 2,
    "aten::binary_cross_entropy": 3,
    "aten::binary_cross_entropy_with_logits": 4,
}

_ELEMENTWISE_BACKWARD: Final[Mapping[str, int]] = {
    "aten::mse_loss_backward": 3,
    "aten::smooth_l1_loss_backward": 3,
    "aten::huber_loss_backward": 3,
    "aten::soft_margin_loss_backward": 3,
    "aten::binary_cross_entropy_backward": 4,
}


def _reduced(args: tuple[Argument, ...], position: int) -> list[Argument]:
    """Arguments with a sum in place of a mean."""
    changed = [*args, *[Const(None)] * (position + 1 - len(args))]
    changed[position] = Const(SUM)
    return changed


def _elements(instruction: Instruction, operand: int) -> Const:
    return Const(math.prod(instruction.shape(operand)))


def _check_alike(instruction: Instruction, first: int, second: int) -> None:
    if instruction.shape(first) != instruction.shape(second):
        raise NoRule("input and target differ in shape")


def elementwise(instruction: Instruction) -> Strategy | Custom:
    """A loss of `input` and `target`, the first two arguments, element by element."""
    position = _ELEMENTWISE[instruction.name]
    reduction = instruction.constant(position, "reduction", MEAN)
    _check_alike(instruction, 0, 1)
    shape = instruction.shape(0)
    place = best_place(instruction, shape)
    wanted = tuple(aligned(place, meta.shape, shape) for meta in instruction.metas)
    if reduction == NONE:
        return Strategy(wanted, (place,))
    if reduction == SUM:
        return Strategy(wanted, (Partial("sum"),))

    def emit(draft: Draft, instruction: Instruction) -> list[Value]:
        registers = _placed(draft, instruction, wanted)
        args = [rewire(argument, registers) for argument in _reduced(instruction.call.args, position)]
        total = draft.call(instruction.mesh, instruction.name, args, _without_reduction(instruction))
        mean = draft.call(instruction.mesh, "aten::div.Scalar", (Operand(total), _elements(instruction, 0)))
        return [Value(mean, instruction.mesh, (Partial("sum"),), instruction.new[0].meta)]

    return Custom(emit)


def elementwise_backward(instruction: Instruction) -> Strategy | Custom:
    """Its gradient, of `grad`, `input` and `target`, the first three arguments."""
    position = _ELEMENTWISE_BACKWARD[instruction.name]
    reduction = instruction.constant(position, "reduction", MEAN)
    _check_alike(instruction, 1, 2)
    shape = instruction.shape(1)
    place = best_place(instruction, shape)
    wanted = tuple(aligned(place, meta.shape, shape) for meta in instruction.metas)
    if reduction != MEAN:
        return Strategy(wanted, (place,))

    def emit(draft: Draft, instruction: Instruction) -> list[Value]:
        registers = _placed(draft, instruction, wanted)
        share = draft.call(instruction.mesh, "aten::div.Scalar", (Operand(registers[0]), _elements(instruction, 1)))
        registers[0] = share
        args = [rewire(argument, registers) for argument in _reduced(instruction.call.args, position)]
        made = draft.call(instruction.mesh, instruction.name, args, _without_reduction(instruction))
        return [Value(made, instruction.mesh, (place,), instruction.new[0].meta)]

    return Custom(emit)


def _without_reduction(instruction: Instruction) -> tuple[tuple[str, Argument], ...]:
    return tuple(item for item in instruction.call.kwargs if item[0] != "reduction")


def _placed(draft: Draft, instruction: Instruction, wanted: tuple[Placement, ...]) -> list[int]:
    """Registers of the operands, placed."""
    return [
        redistribute(draft, value, instruction.mesh, (place,)).register
        for value, place in zip(draft.inputs, wanted, strict=True)
    ]


def _batch_places(instruction: Instruction, source: int, target: int) -> tuple[Placement, ...]:
    """Input and target split along the batch, all others whole.

    Raises:
        NoRule: The split axis holds the classes, or there is no batch.
    """
    place = instruction.places[source]
    rank = len(instruction.shape(source))
    if not isinstance(place, Shard):
        place = instruction.places[target]
        if isinstance(place, Shard) and place.axis > 0:
            place = Shard(place.axis + 1)
    if not isinstance(place, Shard) or rank < 2 or place.axis == 1:
        raise NoRule("it is not the batch that is split")
    labels = labelled(rank, without=(1,))
    assert labels[place.axis]
    split = Shard(place.axis), Shard(place.axis - (place.axis > 1))
    return tuple(
        split[(source, target).index(operand)] if operand in (source, target) else Replicate()
        for operand in range(len(instruction.operands))
    )


def nll(instruction: Instruction) -> Strategy | Custom:
    """`nll_loss_forward(input, target, weight, reduction, ignore_index)` gives the loss and the sum of weights.

    The sum of weights counts what is not ignored. A mean divides by that of the whole batch.
    """
    reduction = instruction.constant(3, "reduction", MEAN)
    wanted = _batch_places(instruction, 0, 1)
    if reduction == NONE:
        return Strategy(wanted, (wanted[1], Replicate()))
    if reduction == SUM:
        return Strategy(wanted, (Partial("sum"), Partial("sum")))
    return Custom(lambda draft, instruction: _mean_nll(draft, instruction, wanted))


def _mean_nll(draft: Draft, instruction: Instruction, wanted: tuple[Placement, ...]) -> list[Value]:
    registers = _placed(draft, instruction, wanted)
    mesh = instruction.mesh
    args = [rewire(argument, registers) for argument in _reduced(instruction.call.args, 3)]
    loss, weight = draft.register(), draft.register()
    draft.call(mesh, instruction.name, args, results=(loss, weight))
    weights = Value(weight, mesh, (Partial("sum"),), instruction.new[1].meta)
    whole = replicate(draft, weights, mesh)
    mean = draft.call(mesh, "aten::div.Tensor", (Operand(loss), Operand(whole.register)))
    return [Value(mean, mesh, (Partial("sum"),), instruction.new[0].meta), whole]


def nll_backward(instruction: Instruction) -> Strategy:
    """`nll_loss_backward(grad, input, target, weight, reduction, ignore_index, total_weight)`.

    The total weight is that of the whole batch already, so each worker's own call is right for its part.
    """
    source, target = instruction.tensor(1), instruction.tensor(2)
    wanted = list(_batch_places(instruction, source, target))
    if instruction.constant(4, "reduction", MEAN) == NONE:
        wanted[0] = wanted[target]
    return Strategy(tuple(wanted), (wanted[source],))


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_ELEMENTWISE, elementwise),
    **dict.fromkeys(_ELEMENTWISE_BACKWARD, elementwise_backward),
    **dict.fromkeys(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), nll),
    **dict.fromkeys(("aten::nll_loss_backward", "aten::nll_loss2d_backward"), nll_backward),
}
