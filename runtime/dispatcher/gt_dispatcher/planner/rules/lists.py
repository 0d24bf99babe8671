"""Operators on lists of tensors, `_foreach_*` and fused optimizers: each element by itself, in few calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import rewire, write_back
from gt_dispatcher.planner.instruction import Instruction, operand_indices
from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.redistribution import redistribute
from gt_dispatcher.planner.rules.pointwise import aligned
from gt_dispatcher.planner.strategy import Custom
from gt_protocol.arguments import Argument, ListArg, Operand
from gt_protocol.blocks import NewTensor
from gt_protocol.placements import Placement, Replicate, Shard

#: Operators on lists that are not pointwise on each element: they need each element whole.
_WHOLE: Final = ("aten::_foreach_norm", "aten::_foreach_max", "aten::_foreach_powsum")


def is_list_operator(name: str) -> bool:
    """Whether an operator works on lists, element by element."""
    return name.startswith(("aten::_foreach_", "aten::_fused_adam", "aten::_fused_sgd", "aten::_fused_adagrad"))


class _Elements:
    """The lists of an instruction: all arguments that are lists have one item for each element, or none at all.

    Attributes:
        count: Number of elements.
        leader: For each element, the operand that decides where it is worked on.
    """

    def __init__(self, instruction: Instruction) -> None:
        first = instruction.argument(0)
        if not isinstance(first, ListArg) or not all(isinstance(item, Operand) for item in first.items):
            raise NoRule("the first argument is no list of tensors")
        self.leader = tuple(operand_indices(first))
        self.count = len(self.leader)
        self._args = (*instruction.call.args, *[argument for _, argument in instruction.call.kwargs])

    def members(self, element: int) -> Iterator[int]:
        """The operands of one element."""
        for argument in self._args:
            if isinstance(argument, ListArg) and len(argument.items) == self.count:
                yield from operand_indices(argument.items[element])

    def shared(self) -> Iterator[int]:
        """The operands that are for all elements."""
        for argument in self._args:
            if isinstance(argument, Operand):
                yield argument.index
            elif isinstance(argument, ListArg) and len(argument.items) != self.count:
                yield from operand_indices(argument)


def by_element(instruction: Instruction) -> Custom:
    """Each element goes where its item in the first list lies, and elements on one mesh share a call."""
    elements = _Elements(instruction)
    split = any(isinstance(place, Shard) for layout in instruction.operands for place in layout.placements)
    why = "it needs each element whole" if split and instruction.name.startswith(_WHOLE) else ""
    return Custom(lambda draft, instruction: _emit(draft, instruction, elements), why)


def _emit(draft: Draft, instruction: Instruction, elements: _Elements) -> list[Value]:
    meshes: dict[Mesh, list[int]] = {}
    for element, leader in enumerate(elements.leader):
        meshes.setdefault(draft.inputs[leader].mesh, []).append(element)
    made: dict[int, Value] = {}
    for mesh, chosen in meshes.items():
        values = {
            operand: redistribute(draft, draft.inputs[operand], mesh, (Replicate(),)) for operand in elements.shared()
        }
        for element in chosen:
            values.update(_placed(draft, instruction, elements, element, mesh))
        _call(draft, instruction, elements, mesh, chosen, values, made)
        for operand in instruction.writes:
            if operand in values:
                write_back(draft, values[operand], draft.inputs[operand])
    return [made[position] for position in sorted(made)]


def _placed(
    draft: Draft, instruction: Instruction, elements: _Elements, element: int, mesh: Mesh
) -> Iterator[tuple[int, Value]]:
    """The operands of an element, in the placement of its first."""
    leader = draft.inputs[elements.leader[element]]
    place: Placement = leader.placements[0]
    if instruction.name.startswith(_WHOLE):
        place = Replicate()
    for operand in elements.members(element):
        value = draft.inputs[operand]
        yield operand, redistribute(draft, value, mesh, (aligned(place, value.meta.shape, leader.meta.shape),))


def _call(
    draft: Draft,
    instruction: Instruction,
    elements: _Elements,
    mesh: Mesh,
    chosen: Sequence[int],
    values: dict[int, Value],
    made: dict[int, Value],
) -> None:
    """Adds one call for the chosen elements."""
    registers = [values[operand].register if operand in values else -1 for operand in range(len(draft.inputs))]

    def local(argument: Argument) -> Argument:
        if isinstance(argument, ListArg) and len(argument.items) == elements.count:
            argument = ListArg(tuple(argument.items[element] for element in chosen))
        return rewire(argument, registers)

    results: list[int] = []
    fresh = isinstance(next(iter(instruction.call.outputs), None), NewTensor)
    for element in chosen if fresh else ():
        register = draft.register()
        results.append(register)
        output = instruction.new[element]
        leader = values[elements.leader[element]]
        place = aligned(leader.placements[0], output.meta.shape, leader.meta.shape)
        made[element] = Value(register, mesh, (place,), output.meta)
    args = [local(argument) for argument in instruction.call.args]
    kwargs = [(name, local(argument)) for name, argument in instruction.call.kwargs]
    draft.call(mesh, instruction.name, args, kwargs, results)
