"""Arguments of an operator call, as they stand in a block body or in a program.

Everything that shapes a result is a constant and part of the body. Python floats are not: a call refers to
them by position, so that a changing learning rate changes no body.

Each type is a tagged msgpack array, `[tag, fields...]`. Rules of evolution: tags are never reused, fields are only
added at the end with a default, and a receiver refuses a tag that it does not know.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Operand(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A tensor: the next reference of the instruction (block), or a register (program).

    Attributes:
        index: Position among the operands of the instruction, from 0.
    """

    index: int


class FloatSlot(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A Python float from the bindings.

    Attributes:
        index: Position among the floats of the instruction, from 0.
    """

    index: int


class Const(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A constant that MessagePack has a type for."""

    value: bool | int | str | None


class DtypeArg(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """An element type, by PyTorch's name without the module."""

    name: str


class MemoryFormatArg(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A memory format, by PyTorch's name without the module."""

    name: str


class LayoutArg(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A storage layout, by PyTorch's name without the module."""

    name: str


class DeviceArg(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The device itself: whichever the worker has."""


class ComplexConst(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A complex constant."""

    real: float
    imag: float


class ScalarTensor(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A 0-dim CPU tensor that takes part by value; its number is in the bindings.

    Attributes:
        dtype: Element type; floating types read a float, all others an integer.
        index: Position among the floats or the integers of the instruction, from 0.
    """

    dtype: str
    index: int


class ListArg(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A list or tuple of arguments."""

    items: tuple[Argument, ...]


class FloatConst(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A float that is part of the program (only the dispatcher writes it, never a client)."""

    value: float


Argument: TypeAlias = (
    Operand
    | FloatSlot
    | Const
    | DtypeArg
    | MemoryFormatArg
    | LayoutArg
    | DeviceArg
    | ComplexConst
    | ScalarTensor
    | ListArg
    | FloatConst
)
