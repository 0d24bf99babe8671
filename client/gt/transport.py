"""The client's socket: one ZeroMQ DEALER. It is used by one thread at a time; the session's lock sees to that."""

from __future__ import annotations

import select

import zmq

from gt_protocol.keys import PeerKeys
from gt_protocol.sockets import receive_frames, send_frames
from gt_protocol.wire import MAX_HEADER_BYTES, Frames


class Transport:
    """A connection to a dispatcher.

    Args:
        address: Its endpoint for clients.
        keys: CURVE keys; None speaks without encryption.
    """

    def __init__(self, address: str, keys: PeerKeys | None) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set(zmq.SNDHWM, 0)
        self._socket.set(zmq.RCVHWM, 0)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.IPV6, 1)
        self._socket.set(zmq.MAXMSGSIZE, MAX_HEADER_BYTES)
        self._socket.set(zmq.RECONNECT_IVL, 20)
        self._socket.set(zmq.RECONNECT_IVL_MAX, 1000)
        if keys is not None and address.startswith("tcp://"):
            self._socket.set(zmq.CURVE_SERVERKEY, keys.dispatcher)
            self._socket.set(zmq.CURVE_PUBLICKEY, keys.public)
            self._socket.set(zmq.CURVE_SECRETKEY, keys.secret)
        self._socket.connect(address)
        self._descriptor = int(self._socket.getsockopt(zmq.FD))

    def send(self, frames: Frames) -> bool:
        """Hands a message to ZeroMQ; never waits.

        Returns:
            False if there is no connection that would take it, as after a refused key.
        """
        try:
            send_frames(self._socket, frames)
        except zmq.Again:
            return False
        return True

    def receive(self) -> Frames | None:
        """The next message that is there, or None."""
        return receive_frames(self._socket)

    def wait(self, timeout: float) -> None:
        """Waits until something may have come. Unlike the other methods, it may be called without the lock.

        The descriptor only tells that ZeroMQ's state may have changed, and another thread's call may take that sign, so
        that `timeout` (seconds) should be short, and `receive` be asked before and after.
        """
        select.select([self._descriptor], [], [], timeout)

    def close(self, linger: float = 0.5) -> None:
        """Closes the connection; what is not sent within `linger` seconds is dropped."""
        self._socket.close(linger=int(linger * 1000))
        self._context.term()
