"""Who is let in: the handshakes of clients and workers."""

from __future__ import annotations

from collections.abc import Callable

from gt_dispatcher.errors import Rejected
from gt_dispatcher.events import Address, AllWorkersHere, Unwatch, Watch
from gt_dispatcher.planner.plan import Region
from gt_dispatcher.planner.regions import resolve_region
from gt_dispatcher.regions import RegionStack, check_sharding
from gt_dispatcher.sessions import Session
from gt_dispatcher.state import CoreState
from gt_dispatcher.workers import WorkerState
from gt_protocol.errors import ProtocolError, ShardingError
from gt_protocol.heartbeat import Pulse
from gt_protocol.link import INITIAL_CREDIT
from gt_protocol.messages import PROTOCOL_VERSION, ClientHello, RefusalCode, Welcome, WorkerHello
from gt_protocol.sharding import ShardingConfig, SignalRule, parse_sharding

#: A worker that has been silent for so many heartbeats gives way to a new one of the same index.
SILENT_HEARTBEATS = 3


class Admission:
    """Lets peers in.

    Args:
        state: The core's state.
        lose_worker: Called with a worker that gives way to a new one.
    """

    def __init__(self, state: CoreState, lose_worker: Callable[[WorkerState, str, float], None]) -> None:
        self._state = state
        self._lose_worker = lose_worker

    def client(self, address: Address, hello: ClientHello, now: float) -> Session:
        """Begins a session, or resumes one.

        Raises:
            Rejected: The client can't be let in.
        """
        self._check(hello.protocol, hello.cluster_uid, hello.operators)
        if len(hello.session) != 16:
            raise Rejected(RefusalCode.MALFORMED, f"a session's id has 16 bytes, not {len(hello.session)}")
        session = self._state.by_identity.get(hello.session)
        if session is None and hello.epoch == 0:
            session = self._begin(address, hello, now)
        elif session is not None and (hello.epoch == self._state.settings.epoch or not session.link.received):
            # A client that has sent nothing yet may not have heard our welcome, and so not know the epoch.
            self._move(session, address, hello.received, now)
        else:
            raise Rejected(
                RefusalCode.EPOCH,
                "the dispatcher has been restarted, or has given the session up: its tensors are gone; run again",
            )
        if hello.pid:
            self._state.effects.append(Watch(address, hello.pid))
        return session

    def worker(self, address: Address, hello: WorkerHello, now: float) -> WorkerState:
        """Accepts a worker, or has one back over a new connection.

        Raises:
            Rejected: The worker can't be accepted.
        """
        self._check(hello.protocol, hello.cluster_uid, hello.operators)
        state = self._state
        present = state.pool.get(hello.index)
        if present is not None and present.incarnation == hello.incarnation and hello.epoch == state.settings.epoch:
            state.pool.relocate(present, address)
            worker, received = present, hello.received
        else:
            if present is not None:
                self._displace(present, hello.index, now)
            pulse = Pulse(state.settings.heartbeat, state.settings.silence, now)
            worker = WorkerState(hello.index, hello.incarnation, address, hello.device, hello.store, pulse)
            # It begins anew: whatever it had received belongs to an earlier life of one of us.
            received = 0
            state.pool.add(worker)
            state.note("worker accepted", index=hello.index, device=hello.device, workers=len(state.pool))
        state.send(address, self._welcome(worker))
        self._resume(worker, received, now)
        if hello.pid:
            state.effects.append(Watch(address, hello.pid))
        if state.pool.complete and not state.announced:
            state.announced = True
            state.effects.append(AllWorkersHere())
        return worker

    def resolve(self, rule: SignalRule) -> Region | None:
        """The region of a rule, on the workers that are there.

        Raises:
            ShardingError: The rule asks for what is not there.
        """
        return resolve_region(rule, self._state.pool.indices)

    def _begin(self, address: Address, hello: ClientHello, now: float) -> Session:
        state = self._state
        sharding = self._sharding(hello)
        home = state.pool.least_used()
        if home is not None:
            worker = state.pool.get(home.workers[0])
            assert worker is not None
            worker.homes += 1
        regions = RegionStack(sharding, self.resolve, state.region_keys, home)
        pulse = Pulse(state.settings.heartbeat, state.settings.silence, now)
        session = Session(state.next_session(), hello.session, address, regions, pulse)
        state.sessions[session.number] = session
        state.by_identity[hello.session] = session
        state.by_address[address] = session
        state.note("session begun", session=session.number, sessions=len(state.sessions))
        state.send(address, self._welcome(session))
        self._resume(session, hello.received, now)
        return session

    def _move(self, session: Session, address: Address, received: int, now: float) -> None:
        state = self._state
        if session.address is not None:
            state.by_address.pop(session.address, None)
            state.effects.append(Unwatch(session.address))
        session.address = address
        session.away_since = None
        session.pulse.heard(now)
        state.by_address[address] = session
        state.note("session resumed", session=session.number)
        state.send(address, self._welcome(session))
        self._resume(session, received, now)

    def _resume(self, peer: Session | WorkerState, received: int, now: float) -> None:
        assert peer.address is not None
        try:
            again = peer.link.resume(received, received + INITIAL_CREDIT)
        except ProtocolError as error:
            raise Rejected(RefusalCode.MALFORMED, str(error)) from None
        self._state.send_frames(peer.address, again)
        peer.pulse.spoke(now)

    def _welcome(self, peer: Session | WorkerState) -> Welcome:
        settings = self._state.settings
        received, limit = peer.link.announcement()
        return Welcome(
            epoch=settings.epoch,
            cluster_uid=settings.cluster_uid,
            received=received,
            limit=limit,
            workers=len(self._state.pool),
            heartbeat=settings.heartbeat,
            silence=settings.silence,
        )

    def _check(self, protocol: int, cluster_uid: str, operators: str) -> None:
        state = self._state
        if protocol != PROTOCOL_VERSION:
            raise Rejected(
                RefusalCode.VERSION,
                f"you speak version {protocol} of the protocol, the dispatcher speaks {PROTOCOL_VERSION}: "
                "install the same release of GT on both sides",
            )
        if cluster_uid and state.settings.cluster_uid and cluster_uid != state.settings.cluster_uid:
            raise Rejected(
                RefusalCode.CLUSTER,
                f"this is cluster {state.settings.cluster_uid}, not {cluster_uid}: check the address",
            )
        if operators != state.operators.digest:
            raise Rejected(
                RefusalCode.OPERATORS,
                "your operator table is another one: install the same release of GT on both sides",
            )

    def _sharding(self, hello: ClientHello) -> ShardingConfig | None:
        state = self._state
        sharding = state.settings.sharding
        try:
            if hello.sharding:
                source = hello.sharding_source or "the client's sharding file"
                sharding = parse_sharding(hello.sharding, source=source, workers=state.settings.workers)
            if sharding is not None:
                check_sharding(sharding, self.resolve)
        except ShardingError as error:
            raise Rejected(RefusalCode.SHARDING, str(error)) from None
        return sharding

    def _displace(self, present: WorkerState, index: int, now: float) -> None:
        silence = present.pulse.silent_for(now)
        if silence < SILENT_HEARTBEATS * self._state.settings.heartbeat:
            raise Rejected(
                RefusalCode.DUPLICATE, f"worker {index} is there already; give this one another GT_WORKER_INDEX"
            )
        self._lose_worker(present, f"worker {index} was silent for {silence:.1f} s and has been replaced", now)
