"""All that the core knows. Only the core's own parts touch it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from gt_dispatcher.events import Address, Effect, Note, Send
from gt_dispatcher.fetches import FetchTable
from gt_dispatcher.listing import ListingCache
from gt_dispatcher.planner.layout import LayoutTable
from gt_dispatcher.planner.planner import Planner
from gt_dispatcher.regions import RegionKeys
from gt_dispatcher.sessions import Session
from gt_dispatcher.storages import StorageKeeper
from gt_dispatcher.workers import WorkerPool, WorkerState
from gt_protocol.messages import Control, Heartbeat
from gt_protocol.operators import OperatorTable
from gt_protocol.sharding import ShardingConfig
from gt_protocol.wire import Frames, encode_control

#: A client is told after this many messages that they arrived.
ACKNOWLEDGE_EVERY: Final = 16


@dataclass(frozen=True)
class CoreSettings:
    """What a dispatcher is told at its start.

    Attributes:
        workers: Number of workers that make the cluster complete.
        cluster_uid: Identity of the cluster, or empty.
        sharding: The cluster's sharding file, or None.
        heartbeat: Seconds between heartbeats.
        silence: Seconds of silence after which a peer counts as dead.
        grace: Seconds that a session outlives the silence of its client.
        epoch: This incarnation; later incarnations of a cluster have other epochs.
    """

    workers: int
    cluster_uid: str = ""
    sharding: ShardingConfig | None = None
    heartbeat: float = 1.0
    silence: float = 10.0
    grace: float = 30.0
    epoch: int = field(default_factory=lambda: secrets.randbits(62) | 1)


class CoreState:
    """State of the core, and the effects of the event that is being handled.

    Args:
        settings: What the dispatcher was told.
        operators: The operator table.
    """

    def __init__(self, settings: CoreSettings, operators: OperatorTable) -> None:
        self.settings = settings
        self.operators = operators
        self.pool = WorkerPool(settings.workers)
        self.layouts = LayoutTable()
        self.planner = Planner(operators, self.layouts, self.pool.group)
        self._registers = count(1)
        self.new_register = self._registers.__next__
        self.keeper = StorageKeeper(self.planner, self.layouts, self.new_register)
        self.listings = ListingCache(operators)
        self.fetches = FetchTable()
        self.region_keys = RegionKeys()
        self.sessions: dict[int, Session] = {}
        self.by_identity: dict[bytes, Session] = {}
        self.by_address: dict[Address, Session] = {}
        self.next_session = count(1).__next__
        self.announced = False
        self.effects: list[Effect] = []
        self.instructions = 0

    def send(self, to: Address, message: Control) -> None:
        """Sends a control message."""
        self.effects.append(Send(to, [encode_control(message)]))

    def send_frames(self, to: Address, messages: list[Frames]) -> None:
        """Sends messages that are encoded already."""
        self.effects += [Send(to, frames) for frames in messages]

    def note(self, event: str, *, warning: bool = False, **fields: object) -> None:
        """Writes a line to the log."""
        self.effects.append(Note(event, fields, warning))

    def flush(self, peer: Session | WorkerState, now: float) -> None:
        """Sends what waits for a peer, and tells it what arrived, if that is due."""
        if peer.address is None:
            return
        if peer.outbox.waiting:
            for frames in peer.outbox.take():
                self.effects.append(Send(peer.address, frames))
                peer.pulse.spoke(now)
        if peer.link.owes_acknowledgement(ACKNOWLEDGE_EVERY):
            self.heartbeat(peer, now)

    def flush_all(self, now: float) -> None:
        """Sends what waits for anybody."""
        for peer in self.peers():
            self.flush(peer, now)

    def heartbeat(self, peer: Session | WorkerState, now: float) -> None:
        """Gives a peer a sign of life, with acknowledgement and credit."""
        if peer.address is not None:
            self.send(peer.address, Heartbeat(*peer.link.announcement()))
            peer.pulse.spoke(now)

    def peers(self) -> Iterator[Session | WorkerState]:
        """All sessions and workers."""
        yield from self.sessions.values()
        yield from self.pool
