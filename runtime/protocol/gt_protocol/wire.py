"""Frames to messages and back, with every bound checked.

A message is a list of frames: the first is a MessagePack control message, the others are raw buffers that belong to
its payload. Whatever bytes come in, the only exception that leaves this module is `MalformedFrame`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from gt_protocol.errors import MalformedFrame
from gt_protocol.messages import ClientAnswer, ClientPayload, Control, Sequenced, WorkerAnswer, WorkerOrder

Buffer: TypeAlias = bytes | bytearray | memoryview
Frames: TypeAlias = list[Buffer]

#: Bulk travels in frames of this many bytes, which is where ZeroMQ moves most bytes a second.
CHUNK_BYTES: Final = 1 << 20
MAX_HEADER_BYTES: Final = 1 << 24
MAX_FRAMES: Final = 1 << 16
MAX_MESSAGE_BYTES: Final = 1 << 35

_encoder = msgspec.msgpack.Encoder()
_control: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)

P = TypeVar("P")


class PayloadCodec(Generic[P]):
    """Encodes and decodes the payloads of one direction of a link."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[P] = msgspec.msgpack.Decoder(union)

    def encode(self, payload: P) -> bytes:
        """Encodes a payload."""
        return _encoder.encode(payload)

    def decode(self, data: Buffer) -> P:
        """Decodes a payload.

        Raises:
            MalformedFrame: The bytes are no payload of this direction.
        """
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedFrame(f"not a payload: {error}") from None


CLIENT_PAYLOADS: Final[PayloadCodec[ClientPayload]] = PayloadCodec(ClientPayload)
CLIENT_ANSWERS: Final[PayloadCodec[ClientAnswer]] = PayloadCodec(ClientAnswer)
WORKER_ORDERS: Final[PayloadCodec[WorkerOrder]] = PayloadCodec(WorkerOrder)
WORKER_ANSWERS: Final[PayloadCodec[WorkerAnswer]] = PayloadCodec(WorkerAnswer)


def encode_control(message: Control) -> bytes:
    """Encodes a control message."""
    return _encoder.encode(message)


def encode_sequenced(sequence: int, received: int, limit: int, payload: bytes) -> bytes:
    """Encodes the envelope around an encoded payload."""
    return _encoder.encode(Sequenced(sequence, received, limit, msgspec.Raw(payload)))


def decode_control(frames: Sequence[Buffer]) -> Control:
    """Decodes the first frame of a message and checks the size of all.

    Raises:
        MalformedFrame: The frames are no message.
    """
    if not frames:
        raise MalformedFrame("a message without frames")
    if len(frames) > MAX_FRAMES or sum(map(len, frames)) > MAX_MESSAGE_BYTES:
        raise MalformedFrame(f"a message of {len(frames)} frames, {sum(map(len, frames))} bytes, is too large")
    if len(frames[0]) > MAX_HEADER_BYTES:
        raise MalformedFrame(f"a header of {len(frames[0])} bytes")
    try:
        return _control.decode(frames[0])
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedFrame(f"not a message: {error}") from None


def chunk(data: Buffer) -> Frames:
    """Cuts a buffer into frames of `CHUNK_BYTES`, without copying. An empty buffer gives no frame."""
    view = memoryview(data).cast("B")
    return [view[start : start + CHUNK_BYTES] for start in range(0, len(view), CHUNK_BYTES)]


def total_bytes(frames: Iterable[Buffer]) -> int:
    """Number of bytes in all frames."""
    return sum(map(len, frames))
