"""What comes into the core, and what goes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from gt_protocol.wire import Frames


class Role(Enum):
    """What a peer is."""

    CLIENT = "client"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer is reached.

    Attributes:
        role: Which socket.
        routing: ZeroMQ's routing id of the present connection; a reconnect gives another one.
    """

    role: Role
    routing: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """A message came in.

    Attributes:
        sender: Who sent it.
        frames: All of its frames.
        now: Present time, in seconds of a monotonic clock.
    """

    sender: Address
    frames: Frames
    now: float


@dataclass(frozen=True, slots=True)
class PeerExited:
    """The process of a peer on this host has ended.

    Attributes:
        peer: Which.
        now: Present time.
    """

    peer: Address
    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes.

    Attributes:
        now: Present time.
    """

    now: float


Event: TypeAlias = Received | PeerExited | Tick


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message."""

    to: Address
    frames: Frames


@dataclass(frozen=True, slots=True)
class Watch:
    """Tell when the process of a peer on this host ends."""

    peer: Address
    pid: int


@dataclass(frozen=True, slots=True)
class Unwatch:
    """A peer's process is no longer of interest."""

    peer: Address


@dataclass(frozen=True, slots=True)
class AllWorkersHere:
    """Every worker that the cluster is made of has been accepted."""


@dataclass(frozen=True, slots=True)
class Note:
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
