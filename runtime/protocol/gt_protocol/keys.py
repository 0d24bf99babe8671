"""CURVE keys as files in a folder: Z85 texts, one key a file, as the operator mounts them from a Secret.

A role finds its own pair as `ROLE.secret` and `ROLE.public`. Clients and workers find `dispatcher.public`; the
dispatcher finds `client.public` and `worker.public`, and lets nobody else in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gt_protocol.errors import SettingsError

KEY_LENGTH = 40


@dataclass(frozen=True)
class PeerKeys:
    """Keys of a client or worker.

    Attributes:
        public: Its own public key.
        secret: Its own secret key.
        dispatcher: The dispatcher's public key.
    """

    public: bytes
    secret: bytes
    dispatcher: bytes

    def __repr__(self) -> str:
        """Leaves the secret out."""
        return f"PeerKeys(public={self.public!r}, dispatcher={self.dispatcher!r})"


@dataclass(frozen=True)
class DispatcherKeys:
    """Keys of a dispatcher.

    Attributes:
        public: Its own public key.
        secret: Its own secret key.
        client: Public key of clients.
        worker: Public key of workers.
    """

    public: bytes
    secret: bytes
    client: bytes
    worker: bytes

    def __repr__(self) -> str:
        """Leaves the secret out."""
        return f"DispatcherKeys(public={self.public!r}, client={self.client!r}, worker={self.worker!r})"


def read_peer_keys(folder: Path, role: Literal["client", "worker"]) -> PeerKeys:
    """Reads the keys of a client or worker.

    Raises:
        SettingsError: A file is missing or holds no key.
    """
    return PeerKeys(
        public=_read(folder / f"{role}.public"),
        secret=_read(folder / f"{role}.secret"),
        dispatcher=_read(folder / "dispatcher.public"),
    )


def read_dispatcher_keys(folder: Path) -> DispatcherKeys:
    """Reads the keys of a dispatcher.

    Raises:
        SettingsError: A file is missing or holds no key.
    """
    return DispatcherKeys(
        public=_read(folder / "dispatcher.public"),
        secret=_read(folder / "dispatcher.secret"),
        client=_read(folder / "client.public"),
        worker=_read(folder / "worker.public"),
    )


def _read(path: Path) -> bytes:
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"GT_KEYS: {path.name} can't be read ({error.strerror}); mount the Secret there") from None
    if len(key) != KEY_LENGTH:
        raise SettingsError(f"GT_KEYS: {path.name} holds no CURVE key of {KEY_LENGTH} characters")
    return key
