"""Messages of several frames over a ZeroMQ socket, which the caller brings: this package does not import ZeroMQ.

pyzmq's own `send_multipart` and `recv_multipart` take twice as long, and tell by an exception that nothing has come:
that takes as long again.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from gt_protocol.wire import Buffer, Frames

#: Messages with more bytes than this are handed over, and long frames taken, without a copy.
COPY_BELOW: Final = 1 << 16

# Of ZeroMQ's C interface, as plain integers.
_NOBLOCK: Final = 1
_MORE: Final = 2 | _NOBLOCK
_EVENTS: Final = 15
_POLLIN: Final = 1


class FrameSocket(Protocol):
    """What is needed of `zmq.Socket`."""

    def send(self, data: Any, flags: int = 0, copy: bool = True) -> Any:
        """Sends a frame."""

    def recv(self, flags: int = 0, copy: bool = True) -> Any:
        """Receives a frame."""

    def get(self, option: int) -> Any:
        """Reads an option."""


def send_frames(socket: FrameSocket, frames: Frames) -> None:
    """Sends a message without waiting.

    Raises:
        zmq.Again: There is no connection that takes it.
    """
    copy = sum(map(len, frames)) < COPY_BELOW
    last = len(frames) - 1
    for position in range(last):
        socket.send(frames[position], _MORE, copy)
    socket.send(frames[last], _NOBLOCK, copy)


def receive_frames(socket: FrameSocket) -> Frames | None:
    """The next message that is there, or None."""
    if not socket.get(_EVENTS) & _POLLIN:
        return None
    frames: Frames = []
    more = True
    while more:
        frame = socket.recv(_NOBLOCK, False)
        data: Buffer = frame.bytes if len(frame) < COPY_BELOW else frame.buffer
        frames.append(data)
        more = frame.more
    return frames
