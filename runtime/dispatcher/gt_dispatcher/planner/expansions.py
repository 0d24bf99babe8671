"""Instructions that no worker has a kernel for: each is a few local calls of other operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from gt_dispatcher.planner.draft import Draft
from gt_dispatcher.planner.instruction import Instruction
from gt_protocol.arguments import Const, ListArg, Operand
from gt_protocol.blocks import NewTensor

#: Adds the local calls for operands in given registers; returns the register of each new tensor.
Expansion: TypeAlias = Callable[[Draft, Instruction, Sequence[int]], tuple[int, ...]]


def linear_backward(draft: Draft, instruction: Instruction, registers: Sequence[int]) -> tuple[int, ...]:
    """`linear_backward(input, grad, weight, mask)`: gradients of input, weight and bias, as far as asked for."""
    mesh = instruction.mesh
    source, grad, weight = (Operand(registers[instruction.tensor(position)]) for position in range(3))
    wanted = [isinstance(output, NewTensor) for output in instruction.call.outputs]
    rank = len(instruction.shape(instruction.tensor(1)))
    results: list[int] = []
    if wanted[0]:
        results.append(draft.call(mesh, "aten::matmul", (grad, weight)))
    flat_grad = _as_matrix(draft, instruction, grad, rank)
    if wanted[1]:
        flat_source = _as_matrix(draft, instruction, source, rank)
        turned = Operand(draft.call(mesh, "aten::t", (flat_grad,)))
        results.append(draft.call(mesh, "aten::mm", (turned, flat_source)))
    if wanted[2]:
        results.append(draft.call(mesh, "aten::sum.dim_IntList", (flat_grad, ListArg((Const(0),)))))
    return tuple(results)


def _as_matrix(draft: Draft, instruction: Instruction, value: Operand, rank: int) -> Operand:
    """All leading axes as one: (..., features) to (rows, features)."""
    if rank == 2:
        return value
    if rank == 1:
        return Operand(draft.call(instruction.mesh, "aten::unsqueeze", (value, Const(0))))
    return Operand(draft.call(instruction.mesh, "aten::flatten.using_ints", (value, Const(0), Const(-2))))


EXPANSIONS: Final[Mapping[str, Expansion]] = {"aten::linear_backward": linear_backward}
"""By operator."""
