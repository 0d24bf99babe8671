"""Whatever bytes come in, decoders answer with a message or with `MalformedFrame`."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gt_protocol import messages, programs
from gt_protocol.blocks import Bindings, TensorMeta, decode_body
from gt_protocol.errors import MalformedFrame
from gt_protocol.failure import Failure
from gt_protocol.wire import (
    CLIENT_ANSWERS,
    CLIENT_PAYLOADS,
    WORKER_ANSWERS,
    WORKER_ORDERS,
    PayloadCodec,
    chunk,
    decode_control,
    encode_control,
    encode_sequenced,
)

META = TensorMeta((2, 3), (3, 1), 0, "float32")
CONTROLS: list[messages.Control] = [
    messages.ClientHello(1, "uid", b"x" * 16, 0, 0, "digest", "version: 1\n", "file.yaml", 7),
    messages.WorkerHello(1, "uid", b"x" * 16, 5, 3, "digest", 2, "cpu", "127.0.0.1:80", 9),
    messages.Welcome(5, "uid", 3, 64, 4, 1.0, 10.0),
    messages.Refused("epoch", "run again"),
    messages.Heartbeat(1, 2),
    messages.Goodbye(),
]
PAYLOADS: list[tuple[PayloadCodec, object]] = [
    (CLIENT_PAYLOADS, messages.BlockMessage(Bindings(1, [2], [0.5], [3], [4], 5, 6))),
    (CLIENT_PAYLOADS, messages.Upload(1, META)),
    (CLIENT_ANSWERS, messages.Value(1, "float32", 0, ((2, 3),), (1,))),
    (CLIENT_ANSWERS, messages.FetchFailed(1, Failure("operator", "no"))),
    (WORKER_ORDERS, programs.Program(1, 2, (), (), programs.pack_code([1, 2]), [], [])),
    (WORKER_ORDERS, programs.FormGroup(1, (programs.Member(0, "127.0.0.1:80"),))),
    (WORKER_ORDERS, programs.StoreShard(1, (2,), (1,), "int64", (0, 0, 1))),
    (WORKER_ANSWERS, messages.RegisterValue(1, "bool", (2,))),
    (WORKER_ANSWERS, messages.WorkerReport(1, 0.5, 3)),
]
CODECS = [CLIENT_PAYLOADS, CLIENT_ANSWERS, WORKER_ORDERS, WORKER_ANSWERS]


@pytest.mark.parametrize("message", CONTROLS, ids=lambda message: type(message).__name__)
def test_control_messages_survive_the_trip(message: messages.Control) -> None:
    assert decode_control([encode_control(message)]) == message


@pytest.mark.parametrize(("codec", "payload"), PAYLOADS, ids=lambda value: type(value).__name__)
def test_payloads_survive_the_trip_within_their_envelope(codec: PayloadCodec, payload: object) -> None:
    envelope = decode_control([encode_sequenced(3, 2, 9, codec.encode(payload))])
    assert isinstance(envelope, messages.Sequenced)
    assert (envelope.sequence, envelope.received, envelope.limit) == (3, 2, 9)
    assert codec.decode(envelope.payload) == payload


def _decoders() -> list:
    return [lambda data: decode_control([data]), lambda data: decode_body(data, 100), *[c.decode for c in CODECS]]


@given(st.binary(max_size=400))
def test_random_bytes_are_refused_or_decoded_never_more(data: bytes) -> None:
    for decode in _decoders():
        try:
            decode(data)
        except MalformedFrame:
            continue


_ENCODED = [encode_control(message) for message in CONTROLS] + [codec.encode(payload) for codec, payload in PAYLOADS]


@given(st.sampled_from(_ENCODED), st.data())
def test_cut_or_damaged_messages_are_refused_or_decoded_never_more(data: bytes, draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(0, len(data)))
    damaged = bytearray(data[:cut])
    if damaged:
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    for decode in _decoders():
        try:
            decode(bytes(damaged))
        except MalformedFrame:
            continue


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)


@given(_json)
def test_wellformed_messagepack_of_the_wrong_shape_is_refused_or_decoded_never_more(value: object) -> None:
    data = msgspec.msgpack.encode(value)
    for decode in _decoders():
        try:
            decode(data)
        except MalformedFrame:
            continue


def test_a_message_without_frames_and_one_with_too_many_are_refused() -> None:
    with pytest.raises(MalformedFrame):
        decode_control([])
    with pytest.raises(MalformedFrame, match="too large"):
        decode_control([b""] * ((1 << 16) + 1))


@given(st.integers(0, 5_000_000))
def test_chunks_put_together_are_the_buffer(size: int) -> None:
    frames = chunk(bytes(size))
    assert sum(map(len, frames)) == size
    assert all(0 < len(frame) <= 1 << 20 for frame in frames)
