"""Errors that a program on the fleet can meet.

GTError
└── ClientError
    ├── ConnectError         no connection could be made
    ├── SessionLost          the session has ended; its tensors are gone
    ├── RemoteError          an instruction failed on a worker (also a RuntimeError)
    ├── GTTimeoutError       a value did not come in time (also a TimeoutError)
    ├── UnsupportedError     what can't be expressed on the fleet (also a NotImplementedError)
    ├── SignalError          regions that do not nest
    └── ConfigError          a sharding file at the wrong time or place
"""

from __future__ import annotations

from gt_protocol.errors import GTError
from gt_protocol.failure import Failure


class ClientError(GTError):
    """Root of the client's errors."""


class ConnectError(ClientError, ConnectionError):
    """No connection to a dispatcher could be made."""


class SessionLost(ClientError, ConnectionError):
    """The session has ended: the dispatcher is gone, or gave it up. Its tensors are gone with it."""


class RemoteError(ClientError, RuntimeError):
    """A tensor has no value, since an instruction failed.

    Attributes:
        failure: The error as it came: operator, operands, worker, cause.
        source: The line of the program that made the instruction, or empty.
    """

    def __init__(self, failure: Failure, source: str) -> None:
        super().__init__(describe(failure, source))
        self.failure = failure
        self.source = source


class GTTimeoutError(ClientError, TimeoutError):
    """A value did not come before its deadline. The session stays usable."""


class UnsupportedError(ClientError, NotImplementedError):
    """Something that can't be expressed on the fleet; the message says what to do instead."""


class SignalError(ClientError, ValueError):
    """Regions that do not nest."""


class ConfigError(ClientError, ValueError):
    """A sharding file was given at the wrong time or can't be read."""


def describe(failure: Failure, source: str) -> str:
    """An error in words: what failed, with what, where in the program, on which worker."""
    what = f"{failure.op}({', '.join(failure.operands)})" if failure.op else "the tensor"
    parts = [f"{what}: {failure.cause + ': ' if failure.cause else ''}{failure.message}"]
    if source:
        parts.append(f"  in your program: {source}")
    if failure.signal:
        parts.append(f"  signal: {failure.signal}")
    if failure.worker >= 0:
        parts.append(f"  worker: {failure.worker}")
    return "\n".join(parts)
