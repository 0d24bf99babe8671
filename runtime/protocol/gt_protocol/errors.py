"""The errors that more than one component raises.

    GTError
    ├── ProtocolError            a peer sent what the protocol does not allow
    │   ├── MalformedFrame       bytes that decode to no message
    │   ├── SequenceGap          a message is missing on an ordered link
    │   └── WindowExceeded       more in flight than the receiver granted
    ├── HandshakeRefused         version, cluster, epoch or operator table do not fit
    ├── SettingsError            an environment variable is missing or wrong
    ├── ShardingError            the sharding file is wrong (file, line, column, signal, fix)
    └── ManifestError            a Kubernetes manifest is wrong (file, document, field)

Components derive their own trees from `GTError` in their `errors.py`.
"""

from __future__ import annotations


class GTError(Exception):
    """Root of all errors that GT raises on purpose."""


class ProtocolError(GTError):
    """A peer broke the protocol; it loses its session, nobody else does."""


class MalformedFrame(ProtocolError):
    """Bytes that are no message, or a message that breaks a bound."""


class SequenceGap(ProtocolError):
    """A message arrived whose predecessor did not."""


class WindowExceeded(ProtocolError):
    """A peer sent more than it had credit for."""


class HandshakeRefused(GTError):
    """The other side refused the connection.

    Attributes:
        code: One of `gt_protocol.messages.RefusalCode`'s values.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class SettingsError(GTError):
    """A setting is missing or has a value that can't be used."""


class ShardingError(GTError):
    """The sharding file can't be used as it is.

    Attributes:
        source: Name of the file (or of what the text came from).
        line: Line of the mistake, from 1; 0 if it has none.
        column: Column of the mistake, from 1; 0 if it has none.
        signal: The signal concerned, or None.
        hint: What to do about it, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str = "<string>",
        line: int = 0,
        column: int = 0,
        signal: str | None = None,
        hint: str | None = None,
    ) -> None:
        place = f"{source}:{line}:{column}" if line else source
        about = f' signal "{signal}":' if signal else ""
        advice = f" ({hint})" if hint else ""
        super().__init__(f"{place}:{about} {message}{advice}")
        self.source = source
        self.line = line
        self.column = column
        self.signal = signal
        self.hint = hint


class ManifestError(GTError):
    """A Kubernetes manifest can't be used as it is.

    Attributes:
        source: File, and document within it where known.
        field: Path of the field, such as `spec.workerGroups[0].replicas`.
    """

    def __init__(self, message: str, *, source: str = "", field: str = "") -> None:
        super().__init__(": ".join(part for part in (source, field, message) if part))
        self.source = source
        self.field = field
