"""Stores at which the members of a group meet: each worker serves one, and reaches those of the others."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Final

from torch._C._distributed_c10d import Store, TCPStore

from gt_worker.errors import CantStart, PeerLost

#: A worker listens before it says hello, so nothing has to be waited for but the network.
CONNECT: Final = timedelta(seconds=5)


class Stores:
    """This worker's own store, and connections to others.

    Args:
        host: Address of this worker, which peers reach and the store listens on.
        timeout: Seconds after which an answer is given up.

    Raises:
        CantStart: The address can't be listened on.
    """

    def __init__(self, host: str, timeout: float) -> None:
        self._timeout = timedelta(seconds=timeout)
        listener = _listen(host)
        port = listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # The store owns the listening socket from here on; it lives in this process, and leaves nothing behind.
        self._own = TCPStore(
            host, port, None, True, self._timeout, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        self._others: dict[str, Store] = {}

    def get(self, address: str) -> Store:
        """The store at an address.

        Raises:
            PeerLost: Nobody answers there.
        """
        if address == self.address:
            return self._own
        store = self._others.get(address)
        if store is None:
            host, _, port = address.rpartition(":")
            try:
                store = TCPStore(host.strip("[]"), int(port), None, False, CONNECT, wait_for_workers=False)
            except (RuntimeError, ValueError) as error:
                raise PeerLost(f"the meeting point {address} can't be reached: {first_line(error)}") from None
            store.set_timeout(self._timeout)
            self._others[address] = store
        return store

    def keep(self, addresses: set[str]) -> None:
        """Closes the connections to all other stores."""
        for address in self._others.keys() - addresses:
            del self._others[address]


def first_line(error: BaseException) -> str:
    """What an exception says, without the C++ stack that PyTorch appends."""
    return str(error).split("\n", 1)[0].strip() or type(error).__name__


def _listen(host: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        raise CantStart(f"GT_HOST: can't listen on {host}: {error.strerror}; give an address of this machine") from None
    return listener
