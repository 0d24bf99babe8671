"""One instruction, as the planner's rules look at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from gt_dispatcher.planner.draft import Draft, PlanContext
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.layout import Layout, Mesh
from gt_protocol.arguments import Argument, Const, FloatSlot, ListArg, Operand, ScalarTensor
from gt_protocol.blocks import Call, NewTensor, TensorMeta, call_size
from gt_protocol.operators import Operator
from gt_protocol.placements import Partial, Placement, Replicate, Shard

Constant = bool | int | str | None


def operand_indices(argument: Argument) -> Iterator[int]:
    """The operands in an argument, in order."""
    if isinstance(argument, Operand):
        yield argument.index
    elif isinstance(argument, ListArg):
        for item in argument.items:
            yield from operand_indices(item)


def written_operands(call: Call, writes: Sequence[int]) -> tuple[int, ...]:
    """The operands in the arguments that an operator writes to.

    Args:
        call: A call of the operator.
        writes: Positions of those arguments in the operator's schema. Positions past the positional arguments are
            keyword arguments, which are `out` tensors then.
    """
    written = [
        index
        for position, argument in enumerate(call.args)
        if position in writes
        for index in operand_indices(argument)
    ]
    if any(position >= len(call.args) for position in writes):
        written += [index for _, argument in call.kwargs for index in operand_indices(argument)]
    return tuple(written)


class Instruction:
    """A call with the layouts of its operands, on the mesh that it will run on.

    Attributes:
        call: The call.
        operator: Its operator.
        operands: Layouts of its operands.
        new: Its new tensors.
        writes: Operands that it writes to.
        mesh: Where it runs.
        places: Placement of each operand on that mesh, for a mesh of one dimension; operands elsewhere arrive whole.
    """

    def __init__(self, call: Call, operator: Operator, operands: Sequence[Layout], mesh: Mesh) -> None:
        self.call = call
        self.operator = operator
        self.operands = tuple(operands)
        self.new = tuple(output for output in call.outputs if isinstance(output, NewTensor))
        self.writes = written_operands(call, operator.writes) if operator.writes else ()
        self.mesh = mesh
        self.places: tuple[Placement, ...] = tuple(
            layout.placements[0] if layout.mesh == mesh else Replicate() for layout in operands
        )

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.operator.name

    @cached_property
    def metas(self) -> tuple[TensorMeta, ...]:
        """Metadata of the operands."""
        return tuple(layout.meta for layout in self.operands)

    @property
    def sharded(self) -> bool:
        """Whether an operand is split or partial on the mesh."""
        return not all(isinstance(place, Replicate) for place in self.places)

    def draft(self, context: PlanContext) -> Draft:
        """An empty plan for it."""
        size = call_size(self.call)
        ints = size.ints + self.operator.random
        return Draft(context, self.name, self.operands, len(self.new), size.floats, ints)

    def shape(self, operand: int) -> tuple[int, ...]:
        """Shape of an operand."""
        return self.operands[operand].meta.shape

    def argument(self, position: int, name: str = "") -> Argument:
        """An argument; None as a constant if it is not given."""
        if position < len(self.call.args):
            return self.call.args[position]
        return next((value for key, value in self.call.kwargs if key == name), Const(None))

    def operand(self, position: int, name: str = "") -> int | None:
        """The operand in an argument, or None if there is none."""
        argument = self.argument(position, name)
        return argument.index if isinstance(argument, Operand) else None

    def tensor(self, position: int, name: str = "") -> int:
        """The operand in an argument.

        Raises:
            NoRule: It is something else.
        """
        index = self.operand(position, name)
        if index is None:
            raise NoRule(f"argument {position} is no tensor")
        return index

    def tensors(self, position: int, name: str = "") -> tuple[int, ...]:
        """The operands in a list.

        Raises:
            NoRule: The list holds something else, or it is none.
        """
        argument = self.argument(position, name)
        if not isinstance(argument, ListArg) or not all(isinstance(item, Operand) for item in argument.items):
            raise NoRule(f"argument {position} is no list of tensors")
        return tuple(operand_indices(argument))

    def constant(self, position: int, name: str = "", default: Constant = None) -> Constant:
        """A constant.

        Raises:
            NoRule: It is no constant of the body.
        """
        if position >= len(self.call.args) and all(key != name for key, _ in self.call.kwargs):
            return default
        argument = self.argument(position, name)
        if not isinstance(argument, Const):
            raise NoRule(f"argument {position} ({name}) is no constant")
        return argument.value

    def integer(self, position: int, name: str = "", default: int | None = None) -> int:
        """An integer constant.

        Raises:
            NoRule: It is something else.
        """
        value = self.constant(position, name, default)
        if not isinstance(value, int):
            raise NoRule(f"argument {position} ({name}) is no integer")
        return value

    def integers(self, position: int, name: str = "") -> tuple[int, ...] | None:
        """A list of integers, a single one as such a list, or None if it is None or not given.

        Raises:
            NoRule: It is something else.
        """
        argument = self.argument(position, name)
        if isinstance(argument, Const):
            argument = ListArg(()) if argument.value is None else ListArg((argument,))
            if not argument.items:
                return None
        found: list[int] = []
        if not isinstance(argument, ListArg):
            raise NoRule(f"argument {position} ({name}) is no list of integers")
        for item in argument.items:
            if not isinstance(item, Const) or not isinstance(item.value, int):
                raise NoRule(f"argument {position} ({name}) is no list of integers")
            found.append(item.value)
        return tuple(found)

    def is_scalar(self, position: int, name: str = "") -> bool:
        """Whether an argument is a number."""
        argument = self.argument(position, name)
        if isinstance(argument, FloatSlot | ScalarTensor):
            return True
        return isinstance(argument, Const) and isinstance(argument.value, int)

    def partial_sum(self, operand: int) -> bool:
        """Whether an operand is a partial sum on the mesh."""
        return self.places[operand] == Partial("sum")

    def shard_axis(self, operand: int) -> int | None:
        """The axis along which an operand is split on the mesh, or None."""
        place = self.places[operand]
        return place.axis if isinstance(place, Shard) else None


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis % rank if rank else 0
