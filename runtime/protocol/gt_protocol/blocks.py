"""Instruction blocks: a position-independent body, and bindings.

A body holds what a program *does*: its calls, in order, with constants, and frees where the program dropped a
tensor. It names tensors only by position: the k-th output made in this block, or the k-th input slot. Which
tensors these are, the floats, and the random counter are bindings. A repeated training step therefore yields the very
same bytes, and its identity is their 128-bit digest.

The stream of a body is a list of 32-bit integers:

    call, ref, ref, ...     a call of the table, and one reference for each of its operands
    FREE, ref               the program dropped the tensor
    ENTER, signal           a region begins (index into `signals`)
    EXIT                    the innermost region ends
    PLACE, ref, signal      makes one output: the tensor, placed by the signal's rule

A reference is k >= 0 for the k-th output of this block, and -1 - k for input slot k.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from gt_protocol.arguments import Argument, FloatConst, FloatSlot, ListArg, Operand, ScalarTensor
from gt_protocol.dtypes import ITEM_SIZES
from gt_protocol.errors import MalformedFrame

FREE: Final = -1
ENTER: Final = -2
EXIT: Final = -3
PLACE: Final = -4

MAX_BODY_BYTES: Final = 1 << 22
MAX_DIMS: Final = 64
MAX_DEPTH: Final = 4
MAX_SIGNAL_LENGTH: Final = 512


class TensorMeta(msgspec.Struct, frozen=True, array_like=True):
    """Shape and place of a tensor within its storage, as the program sees it (global, not of a shard).

    Attributes:
        shape: Size of each axis.
        strides: Step of each axis, in elements.
        offset: First element within the storage.
        dtype: PyTorch's name of the element type.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str


class NewTensor(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """An output that is a new tensor.

    Attributes:
        meta: Its metadata.
        base: Operand whose storage it shares (a view), or -1 for a storage of its own.
    """

    meta: TensorMeta
    base: int = -1


class SameAs(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An output that is one of the operands itself, as in-place operators return."""

    operand: int


class NoTensor(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """An output that is None."""


Output: TypeAlias = NewTensor | SameAs | NoTensor


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One operator call without its tensors: equal calls are one entry of a body's table.

    Attributes:
        op: Index into the operator table (`gt_protocol.operators`).
        args: Positional arguments.
        kwargs: Keyword arguments, sorted by name.
        outputs: The results, flattened in order.
    """

    op: int
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    outputs: tuple[Output, ...]


class CallSize(msgspec.Struct, frozen=True):
    """How much of each binding one call consumes.

    Attributes:
        operands: References that follow the call in the stream.
        floats: Floats.
        ints: Integers.
        outputs: New tensors.
    """

    operands: int
    floats: int
    ints: int
    outputs: int


class _EncodedBody(msgspec.Struct, array_like=True):
    calls: tuple[Call, ...]
    signals: tuple[str, ...]
    stream: bytes
    inputs: int


class Body(msgspec.Struct, frozen=True):
    """A decoded body that has been checked as a whole.

    Attributes:
        calls: Table of distinct calls, in order of first use.
        sizes: What each of them consumes.
        signals: Names of signals, in order of first use.
        stream: The instructions (see the module's text).
        inputs: Number of input slots.
        outputs: Number of tensors that the block makes.
        floats: Number of floats in the bindings.
        ints: Number of integers in the bindings.
        instructions: Number of calls and placements.
    """

    calls: tuple[Call, ...]
    sizes: tuple[CallSize, ...]
    signals: tuple[str, ...]
    stream: tuple[int, ...]
    inputs: int
    outputs: int
    floats: int
    ints: int
    instructions: int


class Bindings(msgspec.Struct, array_like=True):
    """What makes a body concrete.

    Attributes:
        base: Id of the first output; the others follow.
        inputs: Tensor id of each input slot.
        floats: Python floats, in the order of use.
        ints: Integers of 0-dim CPU tensors, in the order of use.
        late_frees: Tensors that the garbage collector dropped at a point of its own choice; freed at the end.
        seed: The session's random seed.
        counter: Random counter of the block's first random instruction.
        reads: Tensors whose values the client wants once the block is done: number that the answer carries, and id.
    """

    base: int
    inputs: list[int]
    floats: list[float]
    ints: list[int]
    late_frees: list[int]
    seed: int = 0
    counter: int = 0
    reads: list[tuple[int, int]] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_EncodedBody)


def call_size(call: Call) -> CallSize:
    """Counts what a call consumes.

    Raises:
        MalformedFrame: Slots are not numbered 0, 1, 2, ... in order of appearance, lists nest too deep, or an
            output's metadata or operand does not fit.
    """
    counter = _SlotCounter()
    for argument in call.args:
        counter.visit(argument, 0)
    for _, argument in call.kwargs:
        counter.visit(argument, 0)
    made = 0
    for output in call.outputs:
        if isinstance(output, NewTensor):
            made += 1
            _check_meta(output.meta)
            if not -1 <= output.base < counter.operands:
                raise MalformedFrame(f"an output views operand {output.base} of {counter.operands}")
        elif isinstance(output, SameAs) and not 0 <= output.operand < counter.operands:
            raise MalformedFrame(f"an output is operand {output.operand} of {counter.operands}")
    return CallSize(counter.operands, counter.floats, counter.ints, made)


class _SlotCounter:
    """Checks that the slots of a call are numbered in order."""

    def __init__(self) -> None:
        self.operands = 0
        self.floats = 0
        self.ints = 0

    def visit(self, argument: Argument, depth: int) -> None:
        if isinstance(argument, Operand):
            self._expect(argument.index, self.operands)
            self.operands += 1
        elif isinstance(argument, FloatSlot):
            self._expect(argument.index, self.floats)
            self.floats += 1
        elif isinstance(argument, ScalarTensor):
            self._scalar(argument)
        elif isinstance(argument, ListArg):
            if depth == MAX_DEPTH:
                raise MalformedFrame(f"arguments nest deeper than {MAX_DEPTH}")
            for item in argument.items:
                self.visit(item, depth + 1)
        elif isinstance(argument, FloatConst):
            raise MalformedFrame("a client's float must be a binding")

    def _scalar(self, argument: ScalarTensor) -> None:
        if argument.dtype not in ITEM_SIZES or argument.dtype.startswith("complex"):
            raise MalformedFrame(f"a scalar of unknown type {argument.dtype!r}")
        if is_floating(argument.dtype):
            self._expect(argument.index, self.floats)
            self.floats += 1
        else:
            self._expect(argument.index, self.ints)
            self.ints += 1

    @staticmethod
    def _expect(index: int, want: int) -> None:
        if index != want:
            raise MalformedFrame(f"slot {index} where slot {want} is due")


def is_floating(dtype: str) -> bool:
    """Whether numbers of this type travel as floats."""
    return "float" in dtype


def _check_meta(meta: TensorMeta) -> None:
    if len(meta.shape) > MAX_DIMS or len(meta.shape) != len(meta.strides):
        raise MalformedFrame(f"shape {meta.shape} with strides {meta.strides}")
    if meta.dtype not in ITEM_SIZES:
        raise MalformedFrame(f"unknown element type {meta.dtype!r}")
    if meta.offset < 0 or any(size < 0 for size in meta.shape):
        raise MalformedFrame(f"negative size in {meta}")


def encode_body(calls: Sequence[Call], signals: Sequence[str], stream: Iterable[int], inputs: int) -> bytes:
    """Encodes a body; equal arguments give equal bytes, in any process."""
    packed = array("i", stream)
    if sys.byteorder == "big":
        packed.byteswap()
    return _encoder.encode(_EncodedBody(tuple(calls), tuple(signals), packed.tobytes(), inputs))


def decode_body(data: bytes | memoryview, operators: int) -> Body:
    """Decodes and checks a body.

    Args:
        data: What `encode_body` made.
        operators: Size of the operator table.

    Raises:
        MalformedFrame: Anything is out of its bounds; nothing of the body may be used then.
    """
    if len(data) > MAX_BODY_BYTES:
        raise MalformedFrame(f"a body of {len(data)} bytes; at most {MAX_BODY_BYTES} are allowed")
    try:
        raw = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedFrame(f"not a block body: {error}") from None
    if len(raw.stream) % 4:
        raise MalformedFrame("the stream is cut within a number")
    stream = array("i")
    stream.frombytes(raw.stream)
    if sys.byteorder == "big":
        stream.byteswap()
    if not 0 <= raw.inputs <= len(stream):
        raise MalformedFrame(f"{raw.inputs} input slots")
    for call in raw.calls:
        if not 0 <= call.op < operators:
            raise MalformedFrame(f"operator {call.op} of {operators}")
    if any(len(name) > MAX_SIGNAL_LENGTH for name in raw.signals):
        raise MalformedFrame(f"a signal's name is longer than {MAX_SIGNAL_LENGTH}")
    sizes = tuple(call_size(call) for call in raw.calls)
    return _walk(raw, sizes, tuple(stream))


def _walk(raw: _EncodedBody, sizes: tuple[CallSize, ...], stream: tuple[int, ...]) -> Body:
    """Follows the stream once, so that nobody after this needs to check it again."""
    outputs = floats = ints = instructions = position = 0
    length = len(stream)

    def reference(at: int) -> None:
        if at >= length or not -raw.inputs <= stream[at] < outputs:
            raise MalformedFrame(f"a reference to nothing at {at}")

    def signal(at: int) -> None:
        if at >= length or not 0 <= stream[at] < len(raw.signals):
            raise MalformedFrame(f"an unknown signal at {at}")

    while position < length:
        code = stream[position]
        position += 1
        if code >= 0:
            if code >= len(sizes):
                raise MalformedFrame(f"call {code} of {len(sizes)}")
            size = sizes[code]
            for offset in range(size.operands):
                reference(position + offset)
            position += size.operands
            outputs += size.outputs
            floats += size.floats
            ints += size.ints
            instructions += 1
        elif code == FREE:
            reference(position)
            position += 1
        elif code == PLACE:
            reference(position)
            signal(position + 1)
            position += 2
            outputs += 1
            instructions += 1
        elif code == ENTER:
            signal(position)
            position += 1
        elif code != EXIT:
            raise MalformedFrame(f"unknown code {code} in the stream")
    return Body(raw.calls, sizes, raw.signals, stream, raw.inputs, outputs, floats, ints, instructions)


def digest(body: bytes) -> bytes:
    """The 128-bit identity of an encoded body."""
    return hashlib.blake2b(body, digest_size=16).digest()
