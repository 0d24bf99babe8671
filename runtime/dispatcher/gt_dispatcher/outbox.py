"""What waits to be sent to one peer over its link."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gt_protocol.link import Link
from gt_protocol.wire import Buffer, Frames, total_bytes


class Outbox:
    """Sends over a link as far as credit allows, and keeps the rest in order.

    It is bounded by what sessions may have in flight: their credit grows only as their work is finished.

    Args:
        link: The link to the peer.

    Attributes:
        waiting: What has not been sent.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.queued = 0
        self.waiting: deque[tuple[bytes, Sequence[Buffer]]] = deque()

    @property
    def finished(self) -> int:
        """How many of the messages that were put here the peer has worked off."""
        return self.link.acknowledged

    def put(self, payload: bytes, buffers: Sequence[Buffer] = ()) -> int:
        """Takes a message.

        Returns:
            Its number; it is worked off once `finished` has reached it.
        """
        self.queued += 1
        self.waiting.append((payload, buffers))
        return self.queued

    def take(self) -> list[Frames]:
        """The messages that credit allows to send now."""
        ready: list[Frames] = []
        while self.waiting:
            payload, buffers = self.waiting[0]
            if not self.link.can_send(len(payload) + total_bytes(buffers)):
                break
            self.waiting.popleft()
            ready.append(self.link.send(payload, buffers))
        return ready
