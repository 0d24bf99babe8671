"""Bodies: what is encoded comes back, and what does not fit is refused."""

from __future__ import annotations

import msgspec
import pytest

from gt_protocol.arguments import Const, DtypeArg, FloatConst, FloatSlot, ListArg, Operand, ScalarTensor
from gt_protocol.blocks import (
    ENTER,
    EXIT,
    FREE,
    PLACE,
    Call,
    NewTensor,
    NoTensor,
    SameAs,
    TensorMeta,
    call_size,
    decode_body,
    digest,
    encode_body,
)
from gt_protocol.errors import MalformedFrame

META = TensorMeta((2, 3), (3, 1), 0, "float32")
ADD = Call(3, (Operand(0), Operand(1)), (("alpha", FloatSlot(0)),), (NewTensor(META),))
VIEW = Call(4, (Operand(0), ListArg((Const(6),))), (), (NewTensor(TensorMeta((6,), (1,), 0, "float32"), 0),))
ADD_ = Call(5, (Operand(0), ScalarTensor("int64", 0)), (), (SameAs(0),))
MAKE = Call(6, (Const(1), DtypeArg("int64")), (), (NewTensor(META), NoTensor()))
STREAM = [ENTER, 0, 0, -1, -2, 1, 0, FREE, 0, PLACE, 1, 1, EXIT, 2, 2, 3]


def _encode(stream: list[int] = STREAM, inputs: int = 2) -> bytes:
    return encode_body([ADD, VIEW, ADD_, MAKE], ["layer", "batch"], stream, inputs)


def test_a_body_survives_the_trip_and_is_counted() -> None:
    body = decode_body(_encode(), 10)
    assert body.calls == (ADD, VIEW, ADD_, MAKE)
    assert body.stream == tuple(STREAM)
    assert body.signals == ("layer", "batch")
    assert (body.inputs, body.outputs, body.floats, body.ints, body.instructions) == (2, 4, 1, 1, 5)


def test_equal_blocks_have_equal_bytes_and_digests() -> None:
    assert _encode() == _encode()
    assert digest(_encode()) == digest(_encode())
    assert len(digest(_encode())) == 16
    assert digest(_encode()) != digest(_encode(inputs=3))


@pytest.mark.parametrize(
    "stream",
    [
        [0, -1],  # an operand is missing
        [0, -1, -3],  # an input slot that is not there
        [0, -1, 0],  # an output before it is made
        [9],  # a call that is not there
        [FREE],
        [FREE, 0],
        [PLACE, -1, 2],  # a signal that is not there
        [ENTER, 5],
        [-9],  # an unknown code
    ],
)
def test_streams_that_refer_to_nothing_are_refused(stream: list[int]) -> None:
    with pytest.raises(MalformedFrame):
        decode_body(_encode(stream), 10)


@pytest.mark.parametrize(
    "call",
    [
        Call(0, (Operand(1),), (), ()),
        Call(0, (FloatSlot(1),), (), ()),
        Call(0, (FloatConst(1.0),), (), ()),
        Call(0, (ScalarTensor("complex64", 0),), (), ()),
        Call(0, (ScalarTensor("nonsense", 0),), (), ()),
        Call(0, (ListArg((ListArg((ListArg((ListArg((ListArg(()),)),)),)),)),), (), ()),
        Call(0, (Operand(0),), (), (SameAs(1),)),
        Call(0, (Operand(0),), (), (NewTensor(META, 1),)),
        Call(0, (), (), (NewTensor(TensorMeta((2,), (1, 1), 0, "float32")),)),
        Call(0, (), (), (NewTensor(TensorMeta((-2,), (1,), 0, "float32")),)),
        Call(0, (), (), (NewTensor(TensorMeta((2,), (1,), 0, "float31")),)),
        Call(0, (), (), (NewTensor(TensorMeta((1,) * 65, (1,) * 65, 0, "float32")),)),
    ],
)
def test_calls_that_break_a_bound_are_refused(call: Call) -> None:
    with pytest.raises(MalformedFrame):
        call_size(call)


def test_bodies_that_break_a_bound_are_refused() -> None:
    with pytest.raises(MalformedFrame, match="operator"):
        decode_body(_encode(), 4)
    with pytest.raises(MalformedFrame, match="bytes"):
        decode_body(b"x" * ((1 << 22) + 1), 10)
    with pytest.raises(MalformedFrame, match="signal"):
        decode_body(encode_body([], ["s" * 513], [], 0), 10)
    with pytest.raises(MalformedFrame, match="cut"):
        decode_body(msgspec.msgpack.encode([[], [], b"abc", 0]), 10)
