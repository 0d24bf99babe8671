"""Writes local calls: on whole operands, by a strategy, or on gathered operands where no rule applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gt_dispatcher.planner.draft import Draft, PlanContext, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.expansions import EXPANSIONS
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.plan import Change, Plan, Prepare
from gt_dispatcher.planner.redistribution import redistribute, replicate, with_strides
from gt_dispatcher.planner.shards import has_empty_shard
from gt_dispatcher.planner.strategy import LocalArgument, Strategy
from gt_protocol.arguments import Argument, Const, ListArg, Operand
from gt_protocol.blocks import NewTensor
from gt_protocol.placements import Partial, Placement, Replicate
from gt_protocol.programs import CopyStep


def on_whole_operands(context: PlanContext, instruction: Instruction) -> Plan:
    """All operands lie whole on the very mesh: each worker does the same, and nothing moves."""
    draft = instruction.draft(context)
    results = local_calls(draft, instruction, draft.inputs)
    return draft.finish(values_of(instruction, results, (Replicate(),) * len(instruction.new)))


def on_gathered_operands(context: PlanContext, instruction: Instruction, why: str) -> Plan | Prepare:
    """Gathers all operands and runs the instruction on each worker: always right.

    Args:
        context: What comes from the planner.
        instruction: The instruction.
        why: Why no rule applies; empty if operands only come from elsewhere.
    """
    for output in instruction.new:
        if output.base >= 0 and not isinstance(instruction.places[output.base], Replicate):
            return Prepare(output.base, Change.REPLICATE)
    draft = instruction.draft(context)
    mesh = instruction.mesh
    values = [replicate(draft, value, mesh) for value in draft.inputs]
    results = local_calls(draft, instruction, values)
    for operand in instruction.writes:
        write_back(draft, values[operand], draft.inputs[operand])
    return draft.finish(values_of(instruction, results, (Replicate(),) * len(instruction.new)), why)


def by_strategy(context: PlanContext, instruction: Instruction, strategy: Strategy) -> Plan | Prepare:
    """Runs an instruction as a rule proposes.

    Raises:
        NoRule: The proposal would move what the instruction writes to.
    """
    for operand, (place, wanted) in enumerate(zip(instruction.places, strategy.inputs, strict=True)):
        if isinstance(place, Partial) and place != wanted:
            return Prepare(operand, Change.REDUCE)
        if place != wanted and operand in instruction.writes:
            raise NoRule("the operator would write to a copy")
        if place != wanted and any(output.base == operand for output in instruction.new):
            return Prepare(operand, Change.REPLICATE)
    draft = instruction.draft(context)
    mesh = instruction.mesh
    values = [
        redistribute(draft, value, mesh, (wanted,)) for value, wanted in zip(draft.inputs, strategy.inputs, strict=True)
    ]
    results = local_calls(draft, instruction, values, strategy.local, strategy.op)
    outputs = values_of(instruction, results, strategy.outputs)
    if any(has_empty_shard(value.meta.shape, mesh, value.placements) for value in values):
        outputs = [alike(draft, value) for value in outputs]
    return draft.finish(outputs)


def alike(draft: Draft, value: Value) -> Value:
    """A partial result with the same strides on each worker, where a worker had nothing to work on.

    Partial sums are reduced storage by storage, element by element as they lie in memory. An operator that gets nothing
    makes zeros in row-major order, whatever it makes of something.
    """
    return with_strides(draft, value, value.meta) if value.partial and len(value.meta.shape) > 1 else value


def write_back(draft: Draft, value: Value, target: Value) -> None:
    """Writes a value that was computed on a copy into the operand that it belongs to."""
    if value.register == target.register:
        return
    moved = redistribute(draft, value, target.mesh, target.placements)
    draft.add_everywhere(target.mesh, CopyStep(moved.register, target.register))


def local_calls(
    draft: Draft,
    instruction: Instruction,
    values: Sequence[Value],
    local: Mapping[int, LocalArgument] | None = None,
    op: str = "",
) -> tuple[int, ...]:
    """Adds the call of each worker of the mesh.

    Args:
        draft: The plan.
        instruction: The instruction.
        values: The operands, placed for the call.
        local: Arguments that differ from the client's, by position.
        op: Another operator than the client's.

    Returns:
        Register of each new tensor.
    """
    expansion = EXPANSIONS.get(instruction.name)
    registers = [value.register for value in values]
    if expansion is not None and not op:
        return expansion(draft, instruction, registers)
    results = tuple(draft.register() if isinstance(output, NewTensor) else -1 for output in instruction.call.outputs)
    args = tuple(rewire(argument, registers) for argument in instruction.call.args)
    kwargs = tuple((name, rewire(argument, registers)) for name, argument in instruction.call.kwargs)
    name = op or instruction.name
    if not local:
        draft.call(instruction.mesh, name, args, kwargs, results)
    else:
        args += (Const(None),) * (max(local) + 1 - len(args))
        for position, worker in enumerate(instruction.mesh.workers):
            own = [local[at](position) if at in local else argument for at, argument in enumerate(args)]
            draft.call_on(worker, name, own, results, kwargs)
    return tuple(register for register in results if register >= 0)


def rewire(argument: Argument, registers: Sequence[int]) -> Argument:
    """The argument with registers in place of operands."""
    if isinstance(argument, Operand):
        return Operand(registers[argument.index])
    if isinstance(argument, ListArg):
        return ListArg(tuple(rewire(item, registers) for item in argument.items))
    return argument


def values_of(instruction: Instruction, results: Sequence[int], places: Sequence[Placement]) -> list[Value]:
    """The new tensors of an instruction, from their registers and placements."""
    return [
        Value(register, instruction.mesh, (place,), output.meta)
        for register, place, output in zip(results, places, instruction.new, strict=True)
    ]
