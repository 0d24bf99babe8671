"""What the device needs of a session. The real one is `gt.session.Session`; tests put their own in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gt_protocol.blocks import Bindings, TensorMeta
from gt_protocol.wire import Buffer


class Fetched(Protocol):
    """A tensor's value, as parts to be concatenated along an axis; each part is dense, in row-major order."""

    @property
    def dtype(self) -> str:
        """Element type, by PyTorch's name."""

    @property
    def axis(self) -> int:
        """Axis along which the parts are concatenated."""

    @property
    def parts(self) -> list[tuple[tuple[int, ...], list[Buffer]]]:
        """Shape and raw frames of each part."""


class SessionAPI(Protocol):
    """Where blocks, uploads and reads go."""

    def send_block(self, body: bytes, bindings: Bindings, sources: tuple[Any, ...]) -> None:
        """Sends a block; may wait for credit.

        The caller repeats a call that raised (a timeout, Ctrl-C) with the same `bindings` object: a session that had
        taken the block all the same must take no notice of the second call.
        """

    def upload(self, tensor: int, meta: TensorMeta, data: memoryview) -> None:
        """Sends a tensor's bytes, in order with the blocks; they do not change afterwards."""

    def fetch(self, ask: Callable[[int], None]) -> Fetched:
        """Waits for a tensor's value.

        Args:
            ask: Sends a block that reads the tensor under the number that it is called with.
        """


class _Provider:
    """Holds where sessions come from."""

    def __init__(self) -> None:
        self.current: Callable[[], SessionAPI] = _connected
        self.begun: Callable[[], bool] = _is_connected


def _connected() -> SessionAPI:
    _take_connector()
    return provider.current()


def _is_connected() -> bool:
    _take_connector()
    return provider.begun()


def _take_connector() -> None:
    """On first use, since it imports the network, which a program that only makes tensors may never need."""
    from gt.connect import connector

    provider.current = connector.current
    provider.begun = lambda: connector.connected


provider = _Provider()


def current_session() -> SessionAPI:
    """The session; made now if there is none."""
    return provider.current()


def session_begun() -> bool:
    """Whether there is a session."""
    return provider.begun()


def use_session(source: Callable[[], SessionAPI]) -> None:
    """Takes sessions from `source` from now on."""
    provider.current = source
    provider.begun = lambda: True
