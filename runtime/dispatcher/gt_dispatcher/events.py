"""What comes into the core, and what goes out of it."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from gt_protocol.wire import Frames


class Role(Enum):
    """What a peer is."""

    CLIENT = "client"
    WORKER = "worker"


class Address(msgspec.Struct, frozen=True):
    """Where a peer is reached.

    Attributes:
        role: Which socket.
        routing: ZeroMQ's routing id of the present connection; a reconnect gives another one.
    """

    role: Role
    routing: bytes


class Received(msgspec.Struct, frozen=True):
    """A message came in.

    Attributes:
        sender: Who sent it.
        frames: All of its frames.
        now: Present time, in seconds of a monotonic clock.
    """

    sender: Address
    frames: Frames
    now: float


class PeerExited(msgspec.Struct, frozen=True):
    """The process of a peer on this host has ended.

    Attributes:
        peer: Which.
        now: Present time.
    """

    peer: Address
    now: float


class Tick(msgspec.Struct, frozen=True):
    """Time passes.

    Attributes:
        now: Present time.
    """

    now: float


Event: TypeAlias = Received | PeerExited | Tick


class Send(msgspec.Struct, frozen=True):
    """Send a message."""

    to: Address
    frames: Frames


class Watch(msgspec.Struct, frozen=True):
    """Tell when the process of a peer on this host ends."""

    peer: Address
    pid: int


class Unwatch(msgspec.Struct, frozen=True):
    """A peer's process is no longer of interest."""

    peer: Address


class AllWorkersHere(msgspec.Struct, frozen=True):
    """Every worker that the cluster is made of has been accepted."""


class Note(msgspec.Struct, frozen=True):
    """A line for the log.

    Attributes:
        event: What happened, as a short text.
        fields: Its circumstances; never a secret.
        warning: Whether somebody should look at it.
    """

    event: str
    fields: dict[str, object]
    warning: bool = False


Effect: TypeAlias = Send | Watch | Unwatch | AllWorkersHere | Note
