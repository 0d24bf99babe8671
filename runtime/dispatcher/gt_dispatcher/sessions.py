"""One client's connection and state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gt_dispatcher.directory import Directory
from gt_dispatcher.events import Address
from gt_dispatcher.outbox import Outbox
from gt_dispatcher.regions import RegionStack
from gt_dispatcher.workers import WorkerPool
from gt_protocol.heartbeat import Pulse
from gt_protocol.link import Link
from gt_protocol.messages import ClientAnswer
from gt_protocol.wire import CLIENT_ANSWERS, Buffer

#: Messages that a client may have beyond those whose work is finished.
CLIENT_WINDOW = 64


@dataclass(eq=False)
class Session:
    """One client.

    Attributes:
        number: Number of the session within this epoch.
        identity: The client's own random id.
        address: Where it is reached now; None while it is away.
        regions: The regions that it is in.
        pulse: Signs of life.
        link: The ordered link to it.
        outbox: What waits for it.
        directory: Its tensors.
        away_since: When it went away, or None while it is there.
    """

    number: int
    identity: bytes
    address: Address | None
    regions: RegionStack
    pulse: Pulse
    link: Link = field(default_factory=lambda: Link(CLIENT_WINDOW))
    outbox: Outbox = field(init=False)
    directory: Directory = field(default_factory=Directory)
    away_since: float | None = None
    _progress: deque[tuple[int, dict[int, tuple[bytes, int]]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.link)

    def answer(self, answer: ClientAnswer, buffers: list[Buffer]) -> None:
        """Queues an answer."""
        self.outbox.put(CLIENT_ANSWERS.encode(answer), buffers)

    def expect(self, sequence: int, orders: dict[int, tuple[bytes, int]]) -> None:
        """Notes what a message of the client's set going.

        Args:
            sequence: The message.
            orders: Incarnation of each worker concerned, and the number of the last order that it got.
        """
        self._progress.append((sequence, orders))

    def grant(self, workers: WorkerPool) -> None:
        """Grants credit for messages whose work is finished."""
        while self._progress:
            sequence, orders = self._progress[0]
            for index, (incarnation, number) in orders.items():
                worker = workers.get(index)
                if worker is not None and worker.incarnation == incarnation and worker.outbox.finished < number:
                    return
            self._progress.popleft()
            self.link.finish(sequence)
