"""Keys of the call cache: what decides an operator's result, and nothing else."""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

import torch

from gt._torch import DEVICE_TYPE
from gt.errors import UnsupportedError
from gt.tensor import FleetTensor


class Mark:
    """Stands in a key for something that compares badly itself, such as True, which equals 1."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


FLOAT: Final = Mark("float")
TRUE: Final = Mark("true")
FALSE: Final = Mark("false")
LIST: Final = Mark("list")
COMPLEX: Final = Mark("complex")
DEVICE: Final = Mark("device")
SCALAR: Final = Mark("scalar")
FOREIGN: Final = Mark("foreign")

#: Types of constants that are their own key.
CONSTANT_TYPES: Final = frozenset({int, str, NoneType, torch.dtype, torch.layout, torch.memory_format})


def key_of(value: Any, operands: list[FleetTensor], floats: list[float], ints: list[int]) -> Any:
    """The key of one argument; what it binds is appended to the lists."""
    kind = type(value)
    if kind is FleetTensor:
        operands.append(value)
        return value._h.meta
    if kind is list or kind is tuple:
        return _list_key(value, operands, floats, ints)
    if kind is float:
        floats.append(value)
        return FLOAT
    if kind is bool:
        return TRUE if value else FALSE
    if kind in CONSTANT_TYPES:
        return value
    if kind is torch.device:
        return DEVICE if value.type == DEVICE_TYPE else value
    if kind is complex:
        return COMPLEX, value
    if isinstance(value, torch.Tensor):
        return _tensor_key(value, floats, ints)
    if isinstance(value, torch.Generator):
        raise UnsupportedError(
            "the fleet has no generators of its own: seed it with torch.manual_seed, and leave out `generator`"
        )
    if isinstance(value, list | tuple):
        return _list_key(value, operands, floats, ints)
    if isinstance(value, int | float):
        return key_of(value.__int__() if isinstance(value, int) else float(value), operands, floats, ints)
    raise UnsupportedError(f"an argument of type {kind.__name__} can't be sent to the fleet")


def _list_key(values: Any, operands: list[FleetTensor], floats: list[float], ints: list[int]) -> tuple[Any, ...]:
    key: list[Any] = [LIST]
    for value in values:
        kind = type(value)
        if kind is FleetTensor:
            operands.append(value)
            key.append(value._h.meta)
        elif kind is int:
            key.append(value)
        else:
            key.append(key_of(value, operands, floats, ints))
    return tuple(key)


def is_scalar(tensor: torch.Tensor) -> bool:
    """Whether a tensor of the CPU may take part in a call on the fleet by its value."""
    return tensor.device.type == "cpu" and not tensor.dim() and not tensor.dtype.is_complex


def _tensor_key(tensor: torch.Tensor, floats: list[float], ints: list[int]) -> Any:
    if not is_scalar(tensor):
        return FOREIGN
    if tensor.dtype.is_floating_point:
        floats.append(float(tensor.item()))
    else:
        ints.append(int(tensor.item()))
    return SCALAR, tensor.dtype
