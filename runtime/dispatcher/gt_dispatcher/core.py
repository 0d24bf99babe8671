"""The dispatcher without sockets and clocks: events come in, effects go out.

The core keeps sessions, tensors, plans and workers, and it alone orders each worker's stream, so that collectives
can't deadlock whatever the clients do. A recorded list of events replays a bug.
"""

from __future__ import annotations

from traceback import format_exception

from gt_dispatcher.admission import Admission
from gt_dispatcher.clients import ClientDesk
from gt_dispatcher.errors import Rejected
from gt_dispatcher.events import Address, Effect, Event, PeerExited, Received, Role
from gt_dispatcher.sessions import Session
from gt_dispatcher.state import CoreSettings, CoreState
from gt_dispatcher.worker_desk import WorkerDesk
from gt_protocol.errors import ProtocolError, SequenceGap
from gt_protocol.messages import (
    ClientHello,
    Control,
    Goodbye,
    Heartbeat,
    RefusalCode,
    Refused,
    Sequenced,
    WorkerHello,
)
from gt_protocol.operators import OperatorTable
from gt_protocol.wire import CLIENT_PAYLOADS, WORKER_ANSWERS, Frames, decode_control


class Core:
    """State machine of the dispatcher.

    Args:
        settings: What the dispatcher was told.
        operators: The operator table.
    """

    def __init__(self, settings: CoreSettings, operators: OperatorTable) -> None:
        self.state = CoreState(settings, operators)
        self._clients = ClientDesk(self.state)
        self._workers = WorkerDesk(self.state)
        self._admission = Admission(self.state, self._workers.lose)

    def handle(self, event: Event) -> list[Effect]:
        """Takes an event; returns what is to be done about it, in order."""
        if isinstance(event, Received):
            self._receive(event)
        elif isinstance(event, PeerExited):
            self._exited(event.peer, event.now)
        else:
            self._tick(event.now)
        effects, self.state.effects = self.state.effects, []
        return effects

    def _receive(self, event: Received) -> None:
        sender = event.sender
        try:
            message = decode_control(event.frames)
            if sender.role is Role.CLIENT:
                self._from_client(sender, message, event.frames[1:], event.now)
            else:
                self._from_worker(sender, message, event.frames[1:], event.now)
        except Rejected as error:
            self.state.send(sender, Refused(error.code, str(error)))
            self.state.note("peer refused", warning=True, role=sender.role.value, code=error.code, reason=str(error))
        except SequenceGap as error:
            # A connection broke, or the sender was interrupted: it says hello again and resends.
            self.state.send(sender, Refused(RefusalCode.UNKNOWN_PEER, str(error)))
        except ProtocolError as error:
            self._expel(sender, str(error), event.now)
        except Exception as error:
            self.state.note("internal error", warning=True, error="".join(format_exception(error)))
            self._expel(sender, f"internal error of the dispatcher: {error!r}; please report this", event.now)

    def _from_client(self, sender: Address, message: Control, frames: Frames, now: float) -> None:
        state = self.state
        if isinstance(message, ClientHello):
            session = self._admission.client(sender, message, now)
        else:
            known = state.by_address.get(sender)
            if known is None:
                raise _unknown()
            session = known
            session.pulse.heard(now)
            session.away_since = None
            if isinstance(message, Sequenced):
                if session.link.receive(message.sequence, message.received, message.limit):
                    payload = CLIENT_PAYLOADS.decode(message.payload)
                    self._clients.handle(session, message.sequence, payload, frames)
            elif isinstance(message, Heartbeat):
                session.link.acknowledge(message.received, message.limit)
            elif isinstance(message, Goodbye):
                self._clients.close(session, "the client said goodbye")
                state.flush_all(now)
                return
            else:
                raise ProtocolError(f"a client sent {type(message).__name__}")
        session.grant(state.pool)
        state.flush(session, now)
        for worker in state.pool:
            state.flush(worker, now)

    def _from_worker(self, sender: Address, message: Control, frames: Frames, now: float) -> None:
        state = self.state
        if isinstance(message, WorkerHello):
            worker = self._admission.worker(sender, message, now)
            for session in state.sessions.values():
                if session.regions.home is None:
                    session.regions.rehome(state.pool.least_used())
        else:
            known = state.pool.at(sender)
            if known is None:
                raise _unknown()
            worker = known
            worker.pulse.heard(now)
            if isinstance(message, Sequenced):
                if worker.link.receive(message.sequence, message.received, message.limit):
                    answer = WORKER_ANSWERS.decode(message.payload)
                    self._workers.handle(worker, answer, frames)
                    worker.link.finish(message.sequence)
            elif isinstance(message, Heartbeat):
                worker.link.acknowledge(message.received, message.limit)
            elif isinstance(message, Goodbye):
                self._workers.lose(worker, f"worker {worker.index} has been stopped", now)
                return
            else:
                raise ProtocolError(f"a worker sent {type(message).__name__}")
        state.flush(worker, now)
        for session in state.sessions.values():
            session.grant(state.pool)
            state.flush(session, now)

    def _exited(self, peer: Address, now: float) -> None:
        state = self.state
        worker = state.pool.at(peer)
        if worker is not None:
            self._workers.lose(worker, f"the process of worker {worker.index} ended", now)
        session = state.by_address.get(peer)
        if session is not None:
            self._clients.close(session, "the client's process ended")
            state.flush_all(now)

    def _expel(self, sender: Address, reason: str, now: float) -> None:
        """A peer broke the protocol: it loses its session, nobody else does."""
        state = self.state
        state.send(sender, Refused(RefusalCode.MALFORMED, reason))
        state.note("protocol broken", warning=True, role=sender.role.value, reason=reason)
        session = state.by_address.get(sender)
        if session is not None:
            self._clients.close(session, reason)
            state.flush_all(now)
        worker = state.pool.at(sender)
        if worker is not None:
            self._workers.lose(worker, f"worker {worker.index} broke the protocol: {reason}", now)

    def _tick(self, now: float) -> None:
        state = self.state
        for worker in list(state.pool):
            if worker.pulse.dead(now):
                silence = worker.pulse.silent_for(now)
                self._workers.lose(worker, f"worker {worker.index} has been silent for {silence:.1f} s", now)
        for session in list(state.sessions.values()):
            self._watch(session, now)
        for peer in state.peers():
            if peer.pulse.due(now):
                state.heartbeat(peer, now)

    def _watch(self, session: Session, now: float) -> None:
        """Gives a session up some time after its client fell silent."""
        state = self.state
        if session.away_since is None:
            if session.pulse.dead(now):
                session.away_since = now
                state.note("client silent", warning=True, session=session.number)
        elif now - session.away_since >= state.settings.grace:
            self._clients.close(session, "the client did not come back")
            state.flush_all(now)


def _unknown() -> Rejected:
    return Rejected(RefusalCode.UNKNOWN_PEER, "say hello first")
