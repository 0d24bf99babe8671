"""Routines made ready to run: no name is looked up and no schema is read when one runs.

A compiled routine runs on the registers of the worker. Most routines are a single call of an operator whose operands
are tensors and constants; these read from and write to the worker's registers directly. All others copy their inputs
into a local register file, run step by step, and copy the outputs back. There, a failing step makes error values of
its results and the next step runs, since a later collective needs its turn whatever happened before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gt_protocol.errors import MalformedFrame
from gt_protocol.operators import OperatorTable
from gt_protocol.programs import (
    AliasStep,
    AllGatherStep,
    AllReduceStep,
    AllToAllStep,
    BroadcastStep,
    CallStep,
    CopyStep,
    ReduceScatterStep,
    RestrideStep,
    Routine,
    SliceStep,
    ZerosStep,
)
from gt_protocol.programs import Step as PlannedStep
from gt_worker.devices import Device
from gt_worker.direct import direct_runner
from gt_worker.errors import UnusableArgument
from gt_worker.groups import Groups
from gt_worker.steps.call import Call
from gt_worker.steps.collectives import AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter
from gt_worker.steps.moves import Alias, Copy, Restride, Slice, Zeros
from gt_worker.steps.step import Frame, Locals, Step

MOVES: Final[dict[type, Callable[[Any], Step]]] = {
    SliceStep: Slice,
    CopyStep: Copy,
    ZerosStep: Zeros,
    AliasStep: Alias,
    RestrideStep: Restride,
}
COLLECTIVES: Final[dict[type, Callable[[Groups, Any], Step]]] = {
    AllReduceStep: AllReduce,
    AllGatherStep: AllGather,
    ReduceScatterStep: ReduceScatter,
    AllToAllStep: AllToAll,
    BroadcastStep: Broadcast,
}


class Unusable(Step):
    """Stands for a step that can't be compiled: it fails whenever it runs."""

    def __init__(self, reason: UnusableArgument, makes: tuple[int, ...]) -> None:
        self._reason = str(reason)
        self.makes = makes

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        raise UnusableArgument(self._reason)


class CompiledRoutine:
    """A routine that is ready to run.

    Attributes:
        name: Name of the client's operator.
        inputs: Number of input registers.
        outputs: Number of output registers.
        width: Numbers that one use of it takes in a program's code.
        floats: Floats that one use of it takes.
        ints: Integers that one use of it takes.
        locals: Number of local registers.
        steps: Its steps.
        direct: Runs it on the worker's registers, or None if it needs local ones.
    """

    __slots__ = ("direct", "floats", "inputs", "ints", "locals", "name", "outputs", "steps", "width")

    def __init__(self, routine: Routine, steps: tuple[Step, ...]) -> None:
        self.name = routine.name
        self.inputs = routine.inputs
        self.outputs = routine.outputs
        self.floats = routine.floats
        self.ints = routine.ints
        self.width = 2 + routine.inputs + routine.outputs
        self.steps = steps
        named = (index for step in steps for index in (*step.reads, *step.makes, *step.writes))
        self.locals = 1 + max((*named, routine.inputs + routine.outputs - 1), default=0)
        self.direct = direct_runner(routine.inputs, routine.outputs, steps)


def compile_routine(routine: Routine, operators: OperatorTable, device: Device, groups: Groups) -> CompiledRoutine:
    """Makes a routine ready.

    Raises:
        MalformedFrame: It names an operator or a local register that can't be.
    """
    if min(routine.inputs, routine.outputs, routine.floats, routine.ints) < 0:
        raise MalformedFrame(f"routine {routine.name}: a negative number of operands")
    steps = tuple(_compile_step(step, operators, device, groups) for step in routine.steps)
    for step in steps:
        if min((*step.reads, *step.makes, *step.writes), default=0) < 0:
            raise MalformedFrame(f"routine {routine.name}: a negative local register")
    return CompiledRoutine(routine, steps)


def _compile_step(step: PlannedStep, operators: OperatorTable, device: Device, groups: Groups) -> Step:
    if isinstance(step, CallStep):
        if not 0 <= step.op < len(operators):
            raise MalformedFrame(f"operator {step.op} of {len(operators)}")
        try:
            return Call(step, operators[step.op], device.torch)
        except UnusableArgument as error:
            return Unusable(error, tuple(target for target in step.results if target >= 0))
    move = MOVES.get(type(step))
    return COLLECTIVES[type(step)](groups, step) if move is None else move(step)
