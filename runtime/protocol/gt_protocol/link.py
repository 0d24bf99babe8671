"""An ordered, exactly-once link over a transport that may drop its connection: pure state, no socket, no clock.

Each side numbers what it sends from 1, keeps it until it is acknowledged, and sends it again after a reconnect.
Acknowledgements are cumulative and ride on every message. Credit is the highest number that the other side lets us
send: it moves on as the other side finishes work, not as it receives, so that a fast sender can't fill a slow
receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from gt_protocol.errors import ProtocolError, SequenceGap, WindowExceeded
from gt_protocol.wire import Buffer, Frames, encode_sequenced, total_bytes

#: Credit that a hello implies, before the other side has heard our limit. No window may be smaller.
INITIAL_CREDIT: Final = 16


class Link:
    """One side's state of an ordered link.

    Args:
        window: How many messages beyond the finished ones the other side may send.
        bytes_window: Bytes of unacknowledged messages above which `can_send` says no, unless nothing is in flight.
    """

    def __init__(self, window: int, *, bytes_window: int = 1 << 28) -> None:
        self.window = window
        self.bytes_window = bytes_window
        self.sent = 0
        self.acknowledged = 0
        self.received = 0
        self.send_limit = 0
        self.receive_limit = window
        self.unacknowledged_bytes = 0
        self._kept: deque[tuple[int, bytes, Sequence[Buffer], int]] = deque()
        self._announced = (0, window)

    @property
    def in_flight(self) -> int:
        """Messages sent and not acknowledged."""
        return self.sent - self.acknowledged

    def can_send(self, size: int = 0) -> bool:
        """Whether credit is left for one more message of `size` bytes."""
        if self.sent >= self.send_limit:
            return False
        return not self._kept or self.unacknowledged_bytes + size <= self.bytes_window

    def send(self, payload: bytes, buffers: Sequence[Buffer] = ()) -> Frames:
        """Numbers a payload, keeps it, and returns the frames to send.

        The buffers are kept as they are: they must not change until they are acknowledged.

        Raises:
            WindowExceeded: No credit is left; ask `can_send` first.
        """
        if self.sent >= self.send_limit:
            raise WindowExceeded(f"message {self.sent + 1} is beyond the limit {self.send_limit}")
        sequence = self.sent + 1
        size = len(payload) + total_bytes(buffers)
        # Ctrl-C may strike between two calls: a message is kept and counted as a whole, or not at all.
        self._kept += ((sequence, payload, buffers, size),)
        self.sent = sequence
        self.unacknowledged_bytes += size
        return self._frames(sequence, payload, buffers)

    def receive(self, sequence: int, received: int, limit: int) -> bool:
        """Takes note of a message that arrived.

        Returns:
            True if it is the next one; False if it came before and is to be ignored.

        Raises:
            SequenceGap: A message before it is missing.
            WindowExceeded: The sender had no credit for it.
            ProtocolError: It acknowledges what was never sent.
        """
        self.acknowledge(received, limit)
        if sequence <= self.received:
            return False
        if sequence != self.received + 1:
            raise SequenceGap(f"message {sequence} came where {self.received + 1} is due")
        if sequence > self.receive_limit:
            raise WindowExceeded(f"message {sequence} is beyond the limit {self.receive_limit}")
        self.received = sequence
        return True

    def acknowledge(self, received: int, limit: int) -> None:
        """Forgets what the other side has, and takes the credit that it grants.

        Raises:
            ProtocolError: It acknowledges what was never sent.
        """
        if received > self.sent:
            raise ProtocolError(f"message {received} is acknowledged, but only {self.sent} were sent")
        self.send_limit = max(self.send_limit, limit)
        while self._kept and self._kept[0][0] <= received:
            self.unacknowledged_bytes -= self._kept.popleft()[3]
        self.acknowledged = max(self.acknowledged, received)

    def finish(self, sequence: int) -> None:
        """Grants credit: everything up to `sequence` has been worked off."""
        self.receive_limit = max(self.receive_limit, sequence + self.window)

    def resume(self, received: int, limit: int) -> list[Frames]:
        """Begins again after a reconnect.

        Args:
            received: Last message that the other side has.
            limit: Its credit for us.

        Returns:
            The frames of each message to send again, in order.

        Raises:
            SequenceGap: The other side lacks messages that are forgotten here.
        """
        if received < self.acknowledged:
            raise SequenceGap(f"message {received + 1} is needed again, but is acknowledged already")
        self.acknowledge(received, limit)
        return [self._frames(sequence, payload, buffers) for sequence, payload, buffers, _ in self._kept]

    def owes_acknowledgement(self, every: int) -> bool:
        """Whether `every` messages (or half of the window of credit) passed since the other side heard from us."""
        received, limit = self._announced
        return self.received - received >= every or self.receive_limit - limit >= max(1, self.window // 2)

    def announcement(self) -> tuple[int, int]:
        """The (received, limit) to put into a heartbeat."""
        self._announced = (self.received, self.receive_limit)
        return self._announced

    def _frames(self, sequence: int, payload: bytes, buffers: Sequence[Buffer]) -> Frames:
        received, limit = self.announcement()
        return [encode_sequenced(sequence, received, limit, payload), *buffers]
