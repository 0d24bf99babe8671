"""Runs programs over the worker's registers, in order. No instruction of a client can make it raise."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

import torch

from gt_protocol.errors import MalformedFrame
from gt_protocol.failure import Failure, FailureKind
from gt_protocol.messages import RegisterFailed, RegisterValue, WorkerReport
from gt_protocol.operators import OperatorTable
from gt_protocol.programs import Program, StoreShard, unpack_code
from gt_protocol.wire import Buffer, Frames
from gt_worker.devices import Device
from gt_worker.direct import Registers
from gt_worker.errors import PeerLost, Poisoned
from gt_worker.groups import Groups
from gt_worker.poison import Poison, Value, describe_value
from gt_worker.rendezvous import first_line
from gt_worker.routines import CompiledRoutine, compile_routine
from gt_worker.steps.step import Frame, Locals, Step
from gt_worker.values import from_frames, to_frames

#: First causes that are kept until they are reported; later ones are only counted.
MAX_FAILURES: Final = 256
MAX_MESSAGE: Final = 2000


class Executor:
    """One worker's registers and routines.

    Args:
        index: Index of the worker.
        device: Its device.
        groups: Its groups.
        operators: The operator table.

    Attributes:
        registers: What each register holds.
        instructions: Instructions run since the start.
        busy: Seconds spent on programs since the start.
        failed: Instructions that failed first here since the start.
    """

    def __init__(self, index: int, device: Device, groups: Groups, operators: OperatorTable) -> None:
        self.registers: Registers = {}
        self.instructions = 0
        self.busy = 0.0
        self.failed = 0
        self._index = index
        self._device = device
        self._groups = groups
        self._operators = operators
        self._routines: dict[int, tuple[CompiledRoutine, int]] = {}
        self._frame = Frame(device, self._blame)
        self._failures: deque[tuple[int, Failure]] = deque(maxlen=MAX_FAILURES)
        self._reported = (0, 0.0)
        self._session = 0
        self._block = -1
        self._origin = -1
        self._name = ""

    def reset(self) -> None:
        """Forgets everything: the dispatcher begins anew."""
        self.registers.clear()
        self._routines.clear()
        self._failures.clear()
        self._groups.clear()

    def run(self, program: Program) -> None:
        """Runs a program.

        Raises:
            MalformedFrame: The program is not what a dispatcher makes. Some of it may have run.
        """
        begun = time.perf_counter()
        routines = self._routines
        for number, routine in program.define:
            compiled = compile_routine(routine, self._operators, self._device, self._groups)
            routines[number] = (compiled, compiled.width)
        self._session, self._block = program.session, program.block
        frame = self._frame
        frame.floats, frame.ints, frame.seed = program.floats, program.ints, program.seed
        frame.float_base = frame.int_base = 0
        try:
            self._interpret(unpack_code(program.code).tolist())
        except ValueError:
            raise MalformedFrame("a program's code is cut within a number") from None
        for number in program.forget:
            routines.pop(number, None)
        self.busy += time.perf_counter() - begun

    def _interpret(self, code: list[int]) -> None:
        registers, routines, frame = self.registers, self._routines, self._frame
        at, end = 0, len(code)
        while at < end:
            number = code[at]
            if number < 0:
                self._free(code, at)
                at += 2
                continue
            entry = routines.get(number)
            if entry is None:
                raise MalformedFrame(f"routine {number} is not defined")
            routine, width = entry
            direct = routine.direct
            if direct is None:
                self._run_steps(routine, code, at)
            else:
                try:
                    direct(registers, code, at + 2, frame)
                except Exception as error:
                    self._explain(routine, code, at, error)
            self.instructions += 1
            frame.float_base += routine.floats
            frame.int_base += routine.ints
            at += width
        if at != end:
            raise MalformedFrame("a program's code ends within an instruction")

    def _free(self, code: list[int], at: int) -> None:
        if code[at] != -1 or at + 1 >= len(code):
            raise MalformedFrame(f"unknown code {code[at]} in a program")
        self.registers.pop(code[at + 1], None)

    def _run_steps(self, routine: CompiledRoutine, code: list[int], at: int) -> None:
        """Runs a routine the long way, over a local register file."""
        local = self._load(routine, code, at)
        for step in routine.steps:
            try:
                step.run(local, self._frame)
            except Exception as error:
                self._spoil(step, local, self._blame(step, local, error))
        self._store(routine, code, at, local)

    def _explain(self, routine: CompiledRoutine, code: list[int], at: int, error: Exception) -> None:
        """A routine that was run the short way has failed: finds out why, and marks what depends on it."""
        local = self._load(routine, code, at)
        step = routine.steps[0]
        self._spoil(step, local, self._blame(step, local, error))
        self._store(routine, code, at, local)

    def _load(self, routine: CompiledRoutine, code: list[int], at: int) -> Locals:
        """Fills a local register file with a routine's inputs."""
        self._check(routine, code, at)
        self._origin, self._name = code[at + 1], routine.name
        local: Locals = [None] * routine.locals
        for position in range(routine.inputs):
            register = code[at + 2 + position]
            value = self.registers.get(register)
            # A worker need not hold every operand: what is not there matters only to a step that reads it.
            local[position] = value if value is not None else Poison(self._unknown(register))
        return local

    def _check(self, routine: CompiledRoutine, code: list[int], at: int) -> None:
        frame = self._frame
        if (
            at + routine.width > len(code)
            or frame.float_base + routine.floats > len(frame.floats)
            or frame.int_base + routine.ints > len(frame.ints)
        ):
            raise MalformedFrame(f"a program ends within an instruction of routine {routine.name}")

    def _store(self, routine: CompiledRoutine, code: list[int], at: int, local: Locals) -> None:
        """Copies outputs, and inputs that have become error values, to the worker's registers.

        Outputs that no step makes belong to other workers, and registers that this one never held stay unknown: the
        dispatcher frees a register only where the tensor lies.
        """
        for position in range(routine.inputs):
            value, register = local[position], code[at + 2 + position]
            if isinstance(value, Poison) and register in self.registers:
                self.registers[register] = value
        first = routine.inputs
        for position in range(first, first + routine.outputs):
            value = local[position]
            if value is not None:
                self.registers[code[at + 2 + position]] = value

    def _spoil(self, step: Step, local: Locals, failure: Failure) -> None:
        """Makes error values of what a failed step makes and writes to, and of all that shares storage with the latter.

        Nobody knows what a storage holds after a write that failed half-way, whichever view it is seen through.
        """
        poison = Poison(failure)
        storages: set[int] = set()
        for position in step.writes:
            value = local[position]
            if isinstance(value, torch.Tensor):
                storages.add(value.untyped_storage()._cdata)
        for position in (*step.makes, *step.writes):
            local[position] = poison
        if not storages:
            return
        for register, value in self.registers.items():
            if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata in storages:
                self.registers[register] = poison
        for position, other in enumerate(local):
            if isinstance(other, torch.Tensor) and other.untyped_storage()._cdata in storages:
                local[position] = poison

    def _blame(self, step: Step, local: Locals, error: Exception) -> Failure:
        """The failure behind an exception: one that was there before, or a new one, which is then reported."""
        if isinstance(error, Poisoned):
            return error.failure
        values = [local[position] for position in step.reads]
        for value in values:
            if isinstance(value, Poison):
                return value.failure
        kind = FailureKind.WORKER_LOST if isinstance(error, PeerLost) else FailureKind.OPERATOR
        operands = tuple(describe_value(value) for value in values)
        return self._failure(kind, explain(error), operands, type(error).__name__)

    def _unknown(self, register: int) -> Failure:
        message = f"the tensor is not there: it was never made on this worker, or is freed (register {register})"
        return self._failure(FailureKind.UNKNOWN_TENSOR, message, (), "")

    def _failure(self, kind: str, message: str, operands: tuple[str, ...], cause: str) -> Failure:
        failure = Failure(
            kind,
            message,
            op=self._name,
            operands=operands,
            block=self._block,
            instruction=self._origin,
            worker=self._index,
            cause=cause,
        )
        self.failed += 1
        self._failures.append((self._session, failure))
        return failure

    def store(self, order: StoreShard, frames: Sequence[Buffer]) -> None:
        """Keeps an uploaded tensor; one that can't be made becomes an error value."""
        value: Value
        try:
            value = from_frames(order, frames, self._device.torch)
        except Exception as error:
            message = f"an upload of {order.dtype}{order.shape} can't be kept: {explain(error)}"
            value = Poison(Failure(FailureKind.OPERATOR, message, worker=self._index, cause=type(error).__name__))
        self.registers[order.register] = value

    def read(self, request: int, register: int) -> tuple[RegisterValue | RegisterFailed, Frames]:
        """The answer to a request for a register's value."""
        value = self.registers.get(register)
        if value is None:
            message = "the tensor is not there: it was never made on this worker, or is freed"
            unknown = Failure(FailureKind.UNKNOWN_TENSOR, message, worker=self._index)
            return RegisterFailed(request, unknown), []
        if isinstance(value, Poison):
            return RegisterFailed(request, value.failure), []
        try:
            dtype, shape, frames = to_frames(value)
        except Exception as error:
            failure = Failure(FailureKind.OPERATOR, explain(error), worker=self._index, cause=type(error).__name__)
            return RegisterFailed(request, failure), []
        return RegisterValue(request, dtype, shape), frames

    def has_failures(self) -> bool:
        """Whether there are failures to report."""
        return bool(self._failures)

    def report(self) -> WorkerReport | None:
        """What was done since the last report, or None if that is nothing."""
        instructions, busy = self._reported
        if instructions == self.instructions and not self._failures:
            return None
        self._reported = (self.instructions, self.busy)
        failures = tuple(self._failures)
        self._failures.clear()
        return WorkerReport(self.instructions - instructions, self.busy - busy, len(self.registers), failures)


def explain(error: BaseException) -> str:
    """What an exception says to a user."""
    message = str(error).split("\nException raised from", 1)[0].strip()
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in message:
        return f"out of memory on the worker: {first_line(error)}; free tensors, or shard over more workers"
    return message[:MAX_MESSAGE] or type(error).__name__
