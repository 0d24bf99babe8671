"""Programs under construction: one for each worker that a block concerns."""

from __future__ import annotations

from gt_dispatcher.planner.layout import Layout
from gt_dispatcher.planner.plan import Plan
from gt_dispatcher.workers import WorkerPool, WorkerState
from gt_protocol.programs import FREE, Program, Routine, pack_code


class ProgramWriter:
    """Collects the code of one worker.

    Attributes:
        worker: The worker.
        code: The code so far.
        floats: Floats of its instructions.
        ints: Integers of its instructions.
        define: Routines that it uses for the first time.
        reads: Registers that it sends at the end.
    """

    __slots__ = ("code", "define", "floats", "ints", "reads", "worker")

    def __init__(self, worker: WorkerState) -> None:
        self.worker = worker
        self.code: list[int] = []
        self.floats: list[float] = []
        self.ints: list[int] = []
        self.define: list[tuple[int, Routine]] = []
        self.reads: list[tuple[int, int]] = []


class Emission:
    """Writes the programs that come of one message of a session.

    Args:
        workers: The workers.
        session: Number of the session.
        block: Sequence number of the message.
        seed: The session's random seed.
    """

    def __init__(self, workers: WorkerPool, session: int, block: int, seed: int = 0) -> None:
        self._workers = workers
        self._session = session
        self._block = block
        self._seed = seed
        self._writers: dict[int, ProgramWriter] = {}
        self.last_orders: dict[int, tuple[bytes, int]] = {}

    def run(self, plan: Plan, origin: int, registers: tuple[int, ...], floats: list[float], ints: list[int]) -> None:
        """Has each worker of a plan run its routine."""
        number = plan.number
        for index, routine in plan.routines.items():
            writer = self._writers.get(index)
            if writer is None:
                writer = self._open(index)
            if number not in writer.worker.defined:
                writer.worker.defined.add(number)
                writer.define.append((number, routine))
            writer.code += (number, origin, *registers)
            if floats:
                writer.floats += floats
            if ints:
                writer.ints += ints

    def free(self, layout: Layout, register: int) -> None:
        """Has each worker that holds a register forget it."""
        for index in layout.mesh.workers:
            writer = self._writers.get(index)
            if writer is None:
                if self._workers.get(index) is None:
                    continue
                writer = self._open(index)
            writer.code += (FREE, register)

    def read(self, index: int, request: int, register: int) -> None:
        """Has a worker send a register's value, after all that was written so far."""
        writer = self._writers.get(index)
        if writer is None:
            writer = self._open(index)
        writer.reads.append((request, register))

    def flush(self) -> None:
        """Queues the programs so far."""
        for writer in self._writers.values():
            order = Program(
                session=self._session,
                block=self._block,
                define=tuple(writer.define),
                forget=tuple(writer.worker.retired),
                code=pack_code(writer.code),
                floats=writer.floats,
                ints=writer.ints,
                seed=self._seed,
                reads=writer.reads,
            )
            writer.worker.retired.clear()
            self.note(writer.worker, writer.worker.order(order))
        self._writers.clear()

    def note(self, worker: WorkerState, number: int) -> None:
        """Notes the last order that a worker got for this message."""
        self.last_orders[worker.index] = (worker.incarnation, number)

    def _open(self, index: int) -> ProgramWriter:
        worker = self._workers.get(index)
        if worker is None:
            raise LookupError(f"worker {index} is gone, but a plan uses it")
        writer = self._writers[index] = ProgramWriter(worker)
        return writer
