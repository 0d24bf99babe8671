"""What workers answer, and what happens when one is lost."""

from __future__ import annotations

from gt_dispatcher.emission import Emission
from gt_dispatcher.events import Unwatch
from gt_dispatcher.state import CoreState
from gt_dispatcher.workers import WorkerState
from gt_protocol.errors import MalformedFrame
from gt_protocol.failure import Failure, FailureKind
from gt_protocol.messages import FetchFailed, RegisterFailed, RegisterValue, WorkerAnswer, WorkerReport
from gt_protocol.wire import Frames


class WorkerDesk:
    """Serves workers.

    Args:
        state: The core's state.
    """

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def handle(self, worker: WorkerState, answer: WorkerAnswer, frames: Frames) -> None:
        """Takes one answer.

        Raises:
            ProtocolError: It breaks the protocol.
        """
        if isinstance(answer, RegisterValue):
            self._value(worker, answer, frames)
        elif isinstance(answer, RegisterFailed):
            self._failed(answer.request, answer.failure)
        else:
            self._report(worker, answer)

    def lose(self, worker: WorkerState, reason: str, now: float) -> None:
        """A worker is gone: what it held is lost, everything else goes on."""
        state = self._state
        failure = Failure(
            FailureKind.WORKER_LOST, f"{reason}; what it held is lost: make it again", worker=worker.index
        )
        state.note("worker lost", warning=True, index=worker.index, reason=reason, workers=len(state.pool) - 1)
        state.effects.append(Unwatch(worker.address))
        state.pool.remove(worker)
        state.keeper.plans.clear()
        state.pool.retire(state.keeper.plans.retire())
        for number, _ in state.fetches.of_worker(worker.index):
            self._failed(number, failure)
        for session in state.sessions.values():
            emission = Emission(state.pool, session.number, 0)
            for tensor in session.directory.tensors.values():
                layout = tensor.layout
                if layout is not None and worker.index in layout.mesh.workers:
                    for held, register in session.directory.fail(tensor, failure):
                        emission.free(held, register)
            emission.flush()
            home = session.regions.home
            if home is not None and worker.index in home.workers:
                session.regions.rehome(state.pool.least_used())
            session.grant(state.pool)
        state.flush_all(now)

    def _value(self, worker: WorkerState, answer: RegisterValue, frames: Frames) -> None:
        fetch = self._state.fetches.get(answer.request)
        if fetch is None:
            return
        if worker.index not in fetch.workers or worker.index in fetch.shapes:
            raise MalformedFrame(f"worker {worker.index} answers read {answer.request}, which it was not asked")
        if fetch.add(worker.index, answer.dtype, answer.shape, frames):
            self._state.fetches.pop(answer.request)
            session = self._state.sessions.get(fetch.session)
            if session is not None:
                value, parts = fetch.value()
                session.answer(value, parts)

    def _failed(self, number: int, failure: Failure) -> None:
        fetch = self._state.fetches.get(number)
        if fetch is None:
            return
        self._state.fetches.pop(number)
        session = self._state.sessions.get(fetch.session)
        if session is not None:
            session.answer(FetchFailed(fetch.request, failure), [])

    def _report(self, worker: WorkerState, report: WorkerReport) -> None:
        for session, failure in report.failures:
            self._state.note(
                "instruction failed",
                session=session,
                worker=worker.index,
                op=failure.op,
                cause=failure.cause,
                message=failure.message,
            )
