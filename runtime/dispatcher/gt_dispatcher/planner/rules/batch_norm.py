"""Batch normalisation of a split batch, by the statistics of the whole batch.

Workers exchange one number per channel for the mean and one for the variance (the variance after the mean, which keeps
its digits), never activations. Running statistics therefore stay the same on every worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import rewire, write_back
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.redistribution import redistribute, replicate
from gt_dispatcher.planner.shards import contiguous
from gt_dispatcher.planner.strategy import Custom, Rule, Strategy
from gt_protocol.arguments import Argument, Const, ListArg, Operand
from gt_protocol.blocks import NewTensor, TensorMeta
from gt_protocol.placements import Partial, Replicate, Shard


class _Channels:
    """Arithmetic on tensors and on one number per channel, on the mesh of an instruction.

    Args:
        draft: The plan.
        instruction: The instruction.
        source: Shape of the normalised tensor, (batch, channels, ...).
    """

    def __init__(self, draft: Draft, instruction: Instruction, source: TensorMeta) -> None:
        self._draft = draft
        self._mesh = instruction.mesh
        self._meta = contiguous((source.shape[1],), source.dtype)
        self._axes = ListArg(tuple(Const(axis) for axis in range(len(source.shape)) if axis != 1))
        self._broadcast = ListArg((Const(1), Const(-1), *[Const(1)] * (len(source.shape) - 2)))

    def call(self, op: str, *args: Argument) -> Operand:
        """Calls an operator on each worker."""
        return Operand(self._draft.call(self._mesh, op, args))

    def total(self, tensor: Operand) -> Operand:
        """The sum over everything but channels, of the whole batch."""
        part = self.call("aten::sum.dim_IntList", tensor, self._axes)
        value = Value(part.index, self._mesh, (Partial("sum"),), self._meta)
        return Operand(replicate(self._draft, value, self._mesh).register)

    def spread(self, numbers: Operand) -> Operand:
        """One number per channel, in a shape that broadcasts."""
        return self.call("aten::view", numbers, self._broadcast)

    def centred(self, tensor: Operand, mean: Operand) -> Operand:
        """The tensor minus its mean."""
        return self.call("aten::sub.Tensor", tensor, self.spread(mean))

    def value(self, numbers: Operand) -> Value:
        """One number per channel as a value."""
        return Value(numbers.index, self._mesh, (Replicate(),), self._meta)


def _check(instruction: Instruction, operand: int) -> None:
    types = {meta.dtype for meta in instruction.metas}
    if instruction.places[operand] != Shard(0) or types not in ({"float32"}, {"float64"}):
        raise NoRule("not a batch of single or double precision that is split along its first axis")


def batch_norm(instruction: Instruction) -> Strategy | Custom:
    """`native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)`."""
    _check(instruction, 0)
    if instruction.constant(5):
        return Custom(_train)
    results = tuple(Shard(0) if len(output.meta.shape) > 1 else Replicate() for output in instruction.new)
    return Strategy((Shard(0), *[Replicate()] * (len(instruction.operands) - 1)), results)


def _train(draft: Draft, instruction: Instruction) -> list[Value]:
    mesh, meta = instruction.mesh, instruction.metas[0]
    values = [draft.inputs[0], *(replicate(draft, value, mesh) for value in draft.inputs[1:])]
    args = [rewire(argument, [value.register for value in values]) for argument in instruction.call.args]
    source, weight, bias, running_mean, running_var, _, momentum, eps = args
    assert isinstance(source, Operand)
    channels = _Channels(draft, instruction, meta)
    count = math.prod(meta.shape) // max(1, meta.shape[1])
    mean = channels.call("aten::div.Scalar", channels.total(source), Const(count))
    centred = channels.centred(source, mean)
    squares = channels.total(channels.call("aten::mul.Tensor", centred, centred))
    variance = channels.call("aten::div.Scalar", squares, Const(count))
    inverse = channels.call("aten::rsqrt", channels.call("aten::add.Scalar", variance, eps))
    normal = draft.register()
    normalize = (source, weight, bias, mean, variance, Const(False), momentum, eps)
    draft.call(mesh, instruction.name, normalize, results=(normal, -1, -1))
    unbiased = channels.call("aten::div.Scalar", squares, Const(max(1, count - 1)))
    for running, batch, position in ((running_mean, mean, 3), (running_var, unbiased, 4)):
        operand = instruction.operand(position)
        if isinstance(running, Operand) and operand is not None:
            _update(draft, instruction, running, batch, momentum)
            write_back(draft, values[operand], draft.inputs[operand])
    results = (Value(normal, mesh, (Shard(0),), instruction.new[0].meta), channels.value(mean), channels.value(inverse))
    return list(results)


def _update(draft: Draft, instruction: Instruction, running: Operand, batch: Operand, momentum: Argument) -> None:
    """Moves a running statistic towards the batch's by the momentum."""
    draft.call(instruction.mesh, "aten::lerp_.Scalar", (running, batch, momentum), results=(-1,))


def batch_norm_backward(instruction: Instruction) -> Strategy | Custom:
    """`native_batch_norm_backward(grad, input, weight, running..., save_mean, save_invstd, train, eps, mask)`."""
    _check(instruction, 1)
    if instruction.constant(7):
        return Custom(_train_backward)
    places = tuple(Shard(0) if len(meta.shape) > 1 else Replicate() for meta in instruction.metas)
    results = tuple(Shard(0) if len(output.meta.shape) > 1 else Partial("sum") for output in instruction.new)
    return Strategy(places, results)


def _train_backward(draft: Draft, instruction: Instruction) -> list[Value]:
    """With x = (input - mean) * invstd: the gradient minus its mean and minus x times its projection on x."""
    mesh, meta = instruction.mesh, instruction.metas[1]
    wanted = [isinstance(output, NewTensor) for output in instruction.call.outputs]
    registers = _placed(draft, instruction)
    grad, source, mean, inverse = (Operand(registers[instruction.tensor(position)]) for position in (0, 1, 5, 6))
    channels = _Channels(draft, instruction, meta)
    count = math.prod(meta.shape) // max(1, meta.shape[1])
    centred = channels.centred(source, mean)
    grad_sum = channels.total(grad)
    projection = channels.total(channels.call("aten::mul.Tensor", grad, centred))
    results: list[Value] = []
    if wanted[0]:
        squared = channels.call("aten::mul.Tensor", inverse, inverse)
        slope = channels.call("aten::div.Scalar", channels.call("aten::mul.Tensor", projection, squared), Const(count))
        shift = channels.call("aten::div.Scalar", grad_sum, Const(count))
        rest = channels.centred(grad, shift)
        along = channels.call("aten::mul.Tensor", centred, channels.spread(slope))
        factor = inverse
        weight = instruction.operand(2)
        if weight is not None:
            factor = channels.call("aten::mul.Tensor", inverse, Operand(registers[weight]))
        made = channels.call(
            "aten::mul.Tensor", channels.call("aten::sub.Tensor", rest, along), channels.spread(factor)
        )
        results.append(Value(made.index, mesh, (Shard(0),), instruction.new[0].meta))
    if wanted[1]:
        results.append(channels.value(channels.call("aten::mul.Tensor", projection, inverse)))
    if wanted[2]:
        results.append(channels.value(grad_sum))
    return results


def _placed(draft: Draft, instruction: Instruction) -> Sequence[int]:
    """Registers of the operands: gradient and input split, all others whole."""
    grad = instruction.tensor(0)
    return [
        redistribute(draft, value, instruction.mesh, (Shard(0),)).register
        if operand in (grad, instruction.tensor(1))
        else replicate(draft, value, instruction.mesh).register
        for operand, value in enumerate(draft.inputs)
    ]


RULES: Final[Mapping[str, Rule]] = {
    "aten::native_batch_norm": batch_norm,
    "aten::native_batch_norm_backward": batch_norm_backward,
}
