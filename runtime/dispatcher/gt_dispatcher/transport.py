"""The dispatcher's sockets: one ZeroMQ ROUTER for clients, one for workers, and watches on local processes."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator

import zmq
import zmq.auth.thread

from gt_dispatcher.events import Address, Role
from gt_protocol.keys import DispatcherKeys
from gt_protocol.sockets import receive_frames, send_frames
from gt_protocol.wire import MAX_HEADER_BYTES, Frames

#: Messages taken from one socket before the other one gets its turn.
TURN = 64
#: Messages of one peer that may wait in the socket; its credit bounds them further.
RECEIVE_QUEUE = 2048


class Transport:
    """Sends to and receives from all peers.

    Args:
        client_endpoint: Where clients connect to.
        worker_endpoint: Where workers connect to.
        keys: CURVE keys; None speaks without encryption.
    """

    def __init__(self, client_endpoint: str, worker_endpoint: str, keys: DispatcherKeys | None) -> None:
        self._context = zmq.Context()
        self._authenticator = _authenticator(self._context, keys) if keys is not None else None
        self._sockets = {
            Role.CLIENT: self._bind(client_endpoint, Role.CLIENT, keys),
            Role.WORKER: self._bind(worker_endpoint, Role.WORKER, keys),
        }
        self._poller = zmq.Poller()
        for socket in self._sockets.values():
            self._poller.register(socket, zmq.POLLIN)
        self._watched: dict[int, Address] = {}
        self._watches: dict[Address, int] = {}

    def endpoint(self, role: Role) -> str:
        """The endpoint that is bound for a role, with its port if one was chosen."""
        return self._sockets[role].getsockopt_string(zmq.LAST_ENDPOINT)

    def send(self, to: Address, frames: Frames) -> None:
        """Sends a message; to a peer that is gone it is dropped, as the link will notice."""
        send_frames(self._sockets[to.role], [to.routing, *frames])

    def poll(self, timeout: float) -> Iterator[tuple[Address, Frames | None]]:
        """Waits for messages.

        Args:
            timeout: Seconds to wait at most.

        Yields:
            Sender and frames of each message; None for frames if the process at that address has ended.
        """
        events = dict(self._poller.poll(int(timeout * 1000)))
        for role, socket in self._sockets.items():
            if socket in events:
                yield from self._drain(role, socket)
        for descriptor in list(self._watched):
            if descriptor in events:
                peer = self._watched[descriptor]
                self.unwatch(peer)
                yield peer, None

    def watch(self, peer: Address, pid: int) -> bool:
        """Watches a process of this host; tells whether there is one."""
        self.unwatch(peer)
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        self._watched[descriptor] = peer
        self._watches[peer] = descriptor
        self._poller.register(descriptor, zmq.POLLIN)
        return True

    def unwatch(self, peer: Address) -> None:
        """Stops watching."""
        descriptor = self._watches.pop(peer, None)
        if descriptor is not None:
            del self._watched[descriptor]
            self._poller.unregister(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Closes everything; what is not sent within a second is dropped."""
        for peer in list(self._watches):
            self.unwatch(peer)
        for socket in self._sockets.values():
            socket.close(linger=1000)
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()

    def _bind(self, endpoint: str, role: Role, keys: DispatcherKeys | None) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.ROUTER)
        socket.set(zmq.SNDHWM, 0)
        socket.set(zmq.RCVHWM, RECEIVE_QUEUE)
        socket.set(zmq.MAXMSGSIZE, MAX_HEADER_BYTES)
        socket.set(zmq.IPV6, 1)
        if keys is not None and endpoint.startswith("tcp://"):
            socket.set(zmq.ZAP_DOMAIN, role.value.encode())
            socket.set(zmq.CURVE_SERVER, 1)
            socket.set(zmq.CURVE_PUBLICKEY, keys.public)
            socket.set(zmq.CURVE_SECRETKEY, keys.secret)
        socket.bind(endpoint)
        return socket

    @staticmethod
    def _drain(role: Role, socket: zmq.Socket[bytes]) -> Iterator[tuple[Address, Frames]]:
        for _ in range(TURN):
            message = receive_frames(socket)
            if message is None:
                return
            yield Address(role, bytes(message.pop(0))), message


class _KnownKeys:
    """Lets in the holders of one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a key may connect. Called by pyzmq's authenticator with the key as Z85 text."""
        return hmac.compare_digest(key, self._key)


def _authenticator(
    context: zmq.Context[zmq.Socket[bytes]], keys: DispatcherKeys
) -> zmq.auth.thread.ThreadAuthenticator:
    authenticator = zmq.auth.thread.ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(Role.CLIENT.value, _KnownKeys(keys.client))
    authenticator.configure_curve_callback(Role.WORKER.value, _KnownKeys(keys.worker))
    return authenticator
