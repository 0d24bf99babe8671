"""Random operators: the numbers must not depend on how a tensor is split.

Each worker draws the whole tensor from the same seed and keeps its own part. Only what fills a tensor regardless of
its values is here; operators that draw by their operands' values run on gathered operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import rewire
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.redistribution import redistribute
from gt_dispatcher.planner.rules.factories import sizes_argument
from gt_dispatcher.planner.strategy import Custom, Rule
from gt_protocol.arguments import Argument, Const, DeviceArg, DtypeArg, Operand
from gt_protocol.blocks import TensorMeta
from gt_protocol.placements import Replicate, Shard
from gt_protocol.programs import CopyStep

#: Random operators that take an operand's shape, never its values.
LIKE = ("aten::rand_like", "aten::randn_like", "aten::randint_like")


def draw(instruction: Instruction) -> Custom:
    """A random operator of one tensor, whose values do not matter.

    Raises:
        NoRule: The values matter.
    """
    if len(instruction.operands) == 1 and isinstance(instruction.places[0], Shard):
        if instruction.writes == (0,):
            return Custom(_fill)
        if instruction.name.startswith(LIKE):
            return Custom(_like)
    raise NoRule("random numbers are drawn for whole tensors")


def blank(draft: Draft, instruction: Instruction, meta: TensorMeta, op: str = "aten::empty_strided") -> int:
    """A new tensor of a global shape and strides on each worker, for numbers to be drawn into.

    The strides matter, since numbers are drawn in the order of memory.
    """
    kwargs: Sequence[tuple[str, Argument]] = (("device", DeviceArg()), ("dtype", DtypeArg(meta.dtype)))
    return draft.call(instruction.mesh, op, (sizes_argument(meta.shape), sizes_argument(meta.strides)), kwargs)


def _fill(draft: Draft, instruction: Instruction) -> list[Value]:
    target, mesh = draft.inputs[0], instruction.mesh
    whole = blank(draft, instruction, target.meta)
    args = tuple(rewire(argument, (whole,)) for argument in instruction.call.args)
    draft.call(mesh, instruction.name, args, instruction.call.kwargs, results=(-1,))
    part = redistribute(draft, Value(whole, mesh, (Replicate(),), target.meta), mesh, target.placements)
    draft.add_everywhere(mesh, CopyStep(part.register, target.register))
    return []


def _like(draft: Draft, instruction: Instruction) -> list[Value]:
    source, mesh, meta = draft.inputs[0], instruction.mesh, instruction.new[0].meta
    whole = blank(draft, instruction, source.meta)
    args = tuple(rewire(argument, (whole,)) for argument in instruction.call.args)
    drawn = draft.call(mesh, instruction.name, args, instruction.call.kwargs)
    return [redistribute(draft, Value(drawn, mesh, (Replicate(),), meta), mesh, source.placements)]


def dropout(instruction: Instruction) -> Custom:
    """`native_dropout(input, p, train)`: the mask is drawn for the whole tensor, the input is not gathered.

    Raises:
        NoRule: The input is not split.
    """
    if not isinstance(instruction.places[0], Shard):
        raise NoRule("the input is not split")
    return Custom(_dropout)


def _dropout(draft: Draft, instruction: Instruction) -> list[Value]:
    """Drops out ones: what remains is the factor, zero or the scale, that the input is multiplied by."""
    source, mesh = draft.inputs[0], instruction.mesh
    ones = blank(draft, instruction, source.meta)
    draft.call(mesh, "aten::fill_.Scalar", (Operand(ones), Const(1)), results=(-1,))
    args = tuple(rewire(argument, (ones,)) for argument in instruction.call.args)
    factor, mask = draft.register(), draft.register()
    draft.call(mesh, instruction.name, args, instruction.call.kwargs, results=(factor, mask))
    parts = [
        redistribute(draft, Value(register, mesh, (Replicate(),), output.meta), mesh, source.placements)
        for register, output in zip((factor, mask), instruction.new, strict=True)
    ]
    scaled = draft.call(mesh, "aten::mul.Tensor", (Operand(source.register), Operand(parts[0].register)))
    return [Value(scaled, mesh, source.placements, instruction.new[0].meta), parts[1]]


RULES: Final[Mapping[str, Rule]] = {"aten::native_dropout": dropout}
