"""A plan under construction: the steps of each worker, over registers that all workers number alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from gt_dispatcher.planner.errors import PlanError
from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.plan import Plan, Traffic
from gt_protocol.arguments import Argument, ListArg, Operand
from gt_protocol.blocks import TensorMeta
from gt_protocol.operators import OperatorTable
from gt_protocol.placements import Partial, Placement, Replicate
from gt_protocol.programs import AliasStep, CallStep, Routine, Step

#: Number of the process group of exactly these workers, in this order.
Groups = Callable[[tuple[int, ...]], int]


@dataclass(frozen=True)
class Value:
    """A tensor as it stands within a draft.

    Attributes:
        register: Local register, the same on every worker that holds a part.
        mesh: The workers that hold it.
        placements: One for each dimension of the mesh.
        meta: Global metadata.
    """

    register: int
    mesh: Mesh
    placements: tuple[Placement, ...]
    meta: TensorMeta

    @property
    def whole(self) -> bool:
        """Whether each worker of the mesh holds all of it."""
        return all(isinstance(place, Replicate) for place in self.placements)

    @property
    def partial(self) -> bool:
        """Whether a placement is a partial result."""
        return any(isinstance(place, Partial) for place in self.placements)


@dataclass(frozen=True)
class PlanContext:
    """What every draft needs of the planner.

    Attributes:
        operators: The operator table.
        layouts: The layout table.
        groups: Numbers process groups.
    """

    operators: OperatorTable
    layouts: LayoutTable
    groups: Groups


class Draft:
    """Collects the steps of a plan.

    Args:
        context: What comes from the planner.
        name: Name of the client's operator.
        operands: Layouts of the instruction's operands.
        outputs: Number of new tensors.
        floats: Number of floats of the instruction.
        ints: Number of integers of the instruction, with the random counter if it has one.

    Attributes:
        inputs: The operands, as they lie.
    """

    def __init__(
        self,
        context: PlanContext,
        name: str,
        operands: Sequence[Layout],
        outputs: int,
        floats: int = 0,
        ints: int = 0,
    ) -> None:
        self.context = context
        self.inputs = tuple(
            Value(register, layout.mesh, layout.placements, layout.meta) for register, layout in enumerate(operands)
        )
        self._name = name
        self._outputs = outputs
        self._floats = floats
        self._ints = ints
        self._next = len(operands) + outputs
        self._steps: dict[int, list[Step]] = {}
        self._traffic: list[Traffic] = []

    def register(self) -> int:
        """A new local register."""
        self._next += 1
        return self._next - 1

    def add(self, worker: int, step: Step) -> None:
        """Adds a step of one worker."""
        self._steps.setdefault(worker, []).append(step)

    def add_everywhere(self, mesh: Mesh, step: Step) -> None:
        """Adds the same step of each worker of a mesh."""
        for worker in mesh.workers:
            self.add(worker, step)

    def moved(self, kind: str, size: int, workers: tuple[int, ...]) -> None:
        """Notes a collective: its kind, its bytes on one worker, and its group."""
        self._traffic.append(Traffic(kind, size, workers))

    def call_on(
        self,
        worker: int,
        op: str,
        args: Sequence[Argument],
        results: Sequence[int],
        kwargs: Sequence[tuple[str, Argument]] = (),
    ) -> None:
        """Adds a call of one worker; `Operand.index` in the arguments is a local register.

        Raises:
            PlanError: The operator is not in the table.
        """
        operator = self.context.operators.get(op)
        if operator is None:
            raise PlanError(f"{self._name} needs {op}, which is not in the operator table")
        random = operator.random and self._ints > 0
        self.add(
            worker,
            CallStep(
                operator.index, tuple(args), tuple(kwargs), tuple(results), random, self._ints - 1 if random else -1
            ),
        )

    def call(
        self,
        mesh: Mesh,
        op: str,
        args: Sequence[Argument],
        kwargs: Sequence[tuple[str, Argument]] = (),
        results: Sequence[int] | None = None,
    ) -> int:
        """Adds the same call of each worker of a mesh.

        Args:
            mesh: The workers.
            op: Name of the operator.
            args: Positional arguments.
            kwargs: Keyword arguments.
            results: Registers of the results; a new one for a single result if not given.

        Returns:
            Register of the first result.
        """
        if results is None:
            results = (self.register(),)
        for worker in mesh.workers:
            self.call_on(worker, op, args, results, kwargs)
        return results[0] if results else -1

    def finish(self, outputs: Sequence[Value], fallback: str = "") -> Plan:
        """Ends the draft.

        Args:
            outputs: The new tensors, in order.
            fallback: Why it works on replicated operands, if it does.
        """
        numbers = self._bind(outputs)
        unique: dict[Routine, Routine] = {}
        routines: dict[int, Routine] = {}
        for worker, steps in self._steps.items():
            renamed = tuple(_renumber(step, numbers) for step in steps) if numbers else tuple(steps)
            routine = Routine(len(self.inputs), self._outputs, self._floats, self._ints, renamed, self._name)
            routines[worker] = unique.setdefault(routine, routine)
        layouts = tuple(self.context.layouts.get(value.mesh, value.placements, value.meta) for value in outputs)
        return Plan(routines, layouts, tuple(self._traffic), fallback)

    def _bind(self, outputs: Sequence[Value]) -> dict[int, int]:
        """Gives each output its register: by renaming, or by an alias where the register is taken."""
        numbers: dict[int, int] = {}
        for position, value in enumerate(outputs, len(self.inputs)):
            if value.register == position:
                continue
            if value.register < len(self.inputs) + self._outputs or value.register in numbers:
                source = numbers.get(value.register, value.register)
                self.add_everywhere(value.mesh, AliasStep(source, position))
            else:
                numbers[value.register] = position
        return numbers


def _renumber(step: Step, numbers: dict[int, int]) -> Step:
    """The step with other register numbers."""
    changes: dict[str, object] = {}
    if isinstance(step, CallStep):
        changes["results"] = tuple(numbers.get(register, register) for register in step.results)
        changes["args"] = tuple(_renumber_argument(argument, numbers) for argument in step.args)
        changes["kwargs"] = tuple((name, _renumber_argument(argument, numbers)) for name, argument in step.kwargs)
    else:
        changes["source"] = numbers.get(step.source, step.source)
        changes["target"] = numbers.get(step.target, step.target)
    return msgspec.structs.replace(step, **changes)


def _renumber_argument(argument: Argument, numbers: dict[int, int]) -> Argument:
    if isinstance(argument, Operand):
        return Operand(numbers.get(argument.index, argument.index))
    if isinstance(argument, ListArg):
        return ListArg(tuple(_renumber_argument(item, numbers) for item in argument.items))
    return argument
