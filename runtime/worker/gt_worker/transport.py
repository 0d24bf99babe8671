"""The worker's socket: one ZeroMQ DEALER, connected to the dispatcher."""

from __future__ import annotations

from typing import Final

import zmq

from gt_protocol.keys import PeerKeys
from gt_protocol.sockets import receive_frames, send_frames
from gt_protocol.wire import Frames

#: Messages that may wait in the socket; the link's window bounds them further.
QUEUE: Final = 1024
#: How long unsent messages are kept when the socket is closed, in milliseconds.
LINGER_MS: Final = 1000


class Transport:
    """Sends to and receives from the dispatcher.

    It may be used by several threads if a lock of the caller's keeps them apart: ZeroMQ lets a socket move between
    threads as long as a memory barrier stands in between, which a lock is.

    Args:
        endpoint: The dispatcher's endpoint for workers.
        keys: CURVE keys; None speaks without encryption.
    """

    def __init__(self, endpoint: str, keys: PeerKeys | None) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._context = zmq.Context()
        self._socket = self._connect()

    def send(self, frames: Frames) -> bool:
        """Sends a message; tells whether there is a connection that took it."""
        try:
            send_frames(self._socket, frames)
        except zmq.Again:
            return False
        return True

    def wait(self, timeout: float) -> bool:
        """Waits for a message for at most `timeout` seconds; tells whether there is one."""
        return bool(self._socket.poll(int(timeout * 1000)))

    def receive(self) -> Frames | None:
        """The next message, or None if there is none."""
        return receive_frames(self._socket)

    def reconnect(self) -> None:
        """Drops the connection, with all that waits in it, and makes a new one."""
        self._socket.close(linger=0)
        self._socket = self._connect()

    def close(self) -> None:
        """Sends what waits, for at most a second, and closes."""
        self._socket.close(linger=LINGER_MS)
        self._context.term()

    def _connect(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.set(zmq.RCVHWM, QUEUE)
        socket.set(zmq.SNDHWM, QUEUE)
        # Nothing may wait for a connection to come: a hello that is repeated would arrive twice.
        socket.set(zmq.IMMEDIATE, 1)
        socket.set(zmq.RECONNECT_IVL, 50)
        socket.set(zmq.RECONNECT_IVL_MAX, 1000)
        socket.set(zmq.IPV6, 1)
        if self._keys is not None and self._endpoint.startswith("tcp://"):
            socket.set(zmq.CURVE_SERVERKEY, self._keys.dispatcher)
            socket.set(zmq.CURVE_PUBLICKEY, self._keys.public)
            socket.set(zmq.CURVE_SECRETKEY, self._keys.secret)
        socket.connect(self._endpoint)
        return socket
