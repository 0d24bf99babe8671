"""Records: a call as the cache keeps it, ready to be emitted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import msgspec

from gt.blocks.cuts import gear
from gt.metadata import Meta
from gt_protocol.blocks import Call


class New(msgspec.Struct, frozen=True):
    """A result that is the instruction's next new tensor."""

    meta: Meta


class Same(msgspec.Struct, frozen=True):
    """A result that is one of the operands.

    Attributes:
        operand: Which one.
        fresh: Give a new Python object for the same tensor, as views do.
    """

    operand: int
    fresh: bool


class Value(msgspec.Struct, frozen=True):
    """A result that is no tensor."""

    value: Any


class Many(msgspec.Struct, frozen=True):
    """Several results."""

    kind: type
    items: tuple[Any, ...]


class Record:
    """A call, its results, and what emission needs to know of it.

    Attributes:
        number: Its number in the stream of a block under construction.
        call: The call as it travels.
        gear: Its share of the rolling hash.
        made: Number of new tensors.
        random: 1 if it draws random numbers, else 0.
        emits: Whether it is an instruction at all; no-op views are none.
        result: How to make the result.
        metas: Metadata of the new tensors, in order.
        single: Metadata of the result, if that is one new tensor and nothing else.
        target: The operand that is the result, if it is one and nothing else; else -1.
    """

    __slots__ = ("call", "emits", "gear", "made", "metas", "number", "random", "result", "single", "target")

    def __init__(self, number: int, call: Call, result: Any, *, random: bool, emits: bool) -> None:
        self.number = number
        self.call = call
        self.gear = gear(encode_call(call))
        self.metas = tuple(new_metas(result))
        self.made = len(self.metas)
        self.random = int(random)
        self.emits = emits
        self.result = result
        self.single: Meta | None = result.meta if type(result) is New else None
        self.target = result.operand if type(result) is Same and not result.fresh and emits else -1


def new_metas(result: Any) -> Iterator[Meta]:
    """Metadata of the new tensors in a result."""
    if isinstance(result, New):
        yield result.meta
    elif isinstance(result, Many):
        for item in result.items:
            yield from new_metas(item)


_encoder = msgspec.msgpack.Encoder()


def encode_call(call: Call) -> bytes:
    """A call's bytes: they tell apart what Python takes for equal, such as 1 and True."""
    return _encoder.encode(call)


_numbers: Final = count(1)


def make_record(call: Call, result: Any, *, random: bool, emits: bool) -> Record:
    """Makes a record, with a number of its own."""
    return Record(next(_numbers), call, result, random=random, emits=emits)
