"""The conversation with the dispatcher: handshake, link, signs of life. Pure state, without socket and clock."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from gt_protocol.errors import ProtocolError
from gt_protocol.heartbeat import Pulse
from gt_protocol.link import Link
from gt_protocol.messages import PROTOCOL_VERSION, RefusalCode, Refused, Welcome, WorkerHello
from gt_protocol.wire import Frames

#: Orders beyond the finished ones that the dispatcher may send.
WINDOW: Final = 128

#: No other answer comes from trying again.
HOPELESS: Final = frozenset({RefusalCode.VERSION, RefusalCode.CLUSTER, RefusalCode.OPERATORS})


class Answer(Enum):
    """What to do about a refusal."""

    IGNORE = auto()
    """It is about something from before."""
    GREET = auto()
    """Say hello at once: the dispatcher does not know this connection."""
    BEGIN_ANEW = auto()
    """Forget everything, and say hello after a pause."""
    GIVE_UP = auto()
    """The worker does not belong there."""


@dataclass(frozen=True)
class Introduction:
    """What a worker says of itself.

    Attributes:
        cluster_uid: Its cluster, or empty.
        operators: Digest of its operator table.
        index: Its place among the workers.
        device: Name of its device.
        store: Address of its rendezvous store.
        pid: Process id, or 0.
    """

    cluster_uid: str
    operators: str
    index: int
    device: str
    store: str
    pid: int


class Conversation:
    """This worker's side.

    Args:
        introduction: What it says of itself.

    Attributes:
        link: The ordered link.
        epoch: The dispatcher's incarnation; 0 before the first welcome.
        welcomed: Whether the dispatcher has accepted it.
        pulse: Signs of life, since the first welcome.
        done: Last order that has been worked off.
        told: Last order that the dispatcher was told of.
    """

    def __init__(self, introduction: Introduction) -> None:
        self._introduction = introduction
        self.pulse: Pulse | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets the dispatcher; to it, this is another worker from here on."""
        self._incarnation = secrets.token_bytes(16)
        self.epoch = 0
        self.welcomed = False
        self._new_link()

    def hello(self) -> WorkerHello:
        """The greeting, which resumes if there is something to resume."""
        self.welcomed = False
        about = self._introduction
        return WorkerHello(
            protocol=PROTOCOL_VERSION,
            cluster_uid=about.cluster_uid,
            incarnation=self._incarnation,
            epoch=self.epoch,
            received=self.link.received,
            operators=about.operators,
            index=about.index,
            device=about.device,
            store=about.store,
            pid=about.pid,
        )

    def welcome(self, message: Welcome, now: float) -> tuple[bool, list[Frames]]:
        """The dispatcher accepts this worker.

        Returns:
            Whether it begins anew, and what has to be sent again.

        Raises:
            ProtocolError: It lacks answers that are forgotten here.
        """
        fresh = message.epoch != self.epoch
        if fresh:
            self._new_link()
        self.epoch = message.epoch
        again = self.link.resume(message.received, message.limit)
        self.welcomed = True
        self.pulse = Pulse(message.heartbeat, message.silence, now)
        return fresh, again

    def refused(self, message: Refused) -> Answer:
        """The dispatcher refuses a message, or this worker."""
        if message.code in HOPELESS:
            return Answer.GIVE_UP
        if message.code == RefusalCode.UNKNOWN_PEER:
            # While a hello is on its way, this answers what was sent before it.
            return Answer.GREET if self.welcomed else Answer.IGNORE
        if message.code == RefusalCode.DUPLICATE and self.welcomed:
            return Answer.IGNORE
        return Answer.BEGIN_ANEW

    def take(self, sequence: int, received: int, limit: int) -> bool:
        """An order has its turn; tells whether it is new.

        Raises:
            ProtocolError: It comes out of turn, or without credit.
        """
        return self.link.receive(sequence, received, limit)

    def finish(self, sequence: int) -> None:
        """An order has been worked off."""
        self.done = sequence
        self.link.finish(sequence)

    def acknowledgement(self) -> tuple[int, int]:
        """What the dispatcher is told: the last order that has been worked off, and its credit."""
        _, limit = self.link.announcement()
        self.told = self.done
        return self.done, limit

    def send(self, payload: bytes, buffers: Frames) -> Frames:
        """Frames of an answer. It may only be sent between orders, since it acknowledges all that were taken."""
        if self.done != self.link.received:
            raise ProtocolError("an answer within an order")
        self.told = self.done
        return self.link.send(payload, buffers)

    def _new_link(self) -> None:
        self.link = Link(WINDOW)
        self.done = 0
        self.told = 0
