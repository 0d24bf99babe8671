"""Reductions over a group: element types that the collectives lack, and averages.

Gloo and NCCL reduce a few element types only. The others go through one that holds all their values and in which the
same reduction gives the same result; the exact sums of small integers wrap as PyTorch's own do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch._C._distributed_c10d import ReduceOp

from gt_worker.errors import UnusableArgument

NATIVE: Final = frozenset(
    {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64}
)

#: Types that go through a wider one, by value.
WIDER: Final = {
    torch.bool: torch.int32,
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
}

#: Types that are pairs of real numbers.
PAIRS: Final = frozenset({torch.complex32, torch.complex64, torch.complex128})

OPERATIONS: Final = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.SUM,
    "max": ReduceOp.MAX,
    "min": ReduceOp.MIN,
    "product": ReduceOp.PRODUCT,
}

_SIGN: Final = -(1 << 63)


class Reduction:
    """One reduction, between packing and unpacking.

    Args:
        flat: One-dimensional dense tensor of this member's elements; receives the result.
        op: `sum`, `avg`, `max`, `min` or `product`.
        size: Number of members.

    Raises:
        UnusableArgument: The operation is not defined for the element type.
    """

    def __init__(self, flat: torch.Tensor, op: str, size: int) -> None:
        if op not in OPERATIONS:
            raise UnusableArgument(f"unknown reduction {op!r}; use one of {', '.join(OPERATIONS)}")
        self._flat = flat
        self._size = size
        self._op = op
        self.operation = OPERATIONS[op]
        self.buffer = self._packed(flat)

    def finish(self) -> None:
        """Turns the reduced buffer into the result."""
        flat, buffer = self._flat, self.buffer
        if self._op == "avg":
            buffer.div_(self._size)
        if flat.numel() == 0:
            return
        if flat.dtype is torch.uint64:
            flat.view(torch.int64).copy_(buffer ^ _SIGN if self._op in ("max", "min") else buffer)
        elif buffer.data_ptr() != flat.data_ptr():
            flat.copy_(buffer)

    def _packed(self, flat: torch.Tensor) -> torch.Tensor:
        dtype = flat.dtype
        if self._op == "avg" and not (dtype.is_floating_point or dtype.is_complex):
            raise UnusableArgument(f"an average of {dtype} is not defined; convert to a floating type first")
        if flat.numel() == 0:
            # Even then something travels, since a member without a value must be noticed.
            return torch.zeros(1, dtype=torch.float32, device=flat.device)
        if dtype in NATIVE:
            return flat
        if dtype in PAIRS:
            if self._op not in ("sum", "avg"):
                raise UnusableArgument(f"{self._op} of {dtype} over workers is not defined; gather the tensor first")
            return torch.view_as_real(flat).view(-1)
        if dtype is torch.uint64:
            same = flat.view(torch.int64)
            return same ^ _SIGN if self._op in ("max", "min") else same
        return flat.to(WIDER[dtype])


FOLDS: Final[dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "sum": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "product": torch.mul,
}

_FOLD_IN: Final = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.uint16: torch.int64,
    torch.uint32: torch.int64,
    torch.complex32: torch.complex64,
}


def fold(parts: torch.Tensor, op: str) -> torch.Tensor:
    """Reduces (members, elements) in the order of the members.

    Half precision is summed in single precision, so that the result is rounded once.

    Raises:
        UnusableArgument: The operation is not defined for the element type.
    """
    if op not in OPERATIONS or (op == "avg" and not (parts.is_floating_point() or parts.is_complex())):
        raise UnusableArgument(f"{op!r} of {parts.dtype} over workers is not defined")
    dtype = parts.dtype
    if dtype is torch.uint64:
        return _fold_uint64(parts, op)
    wide = parts.to(_FOLD_IN.get(dtype, dtype))
    result = wide[0]
    for part in wide[1:]:
        result = FOLDS["sum" if op == "avg" else op](result, part)
    if op == "avg":
        result = result / parts.shape[0]
    return result.to(dtype)


def _fold_uint64(parts: torch.Tensor, op: str) -> torch.Tensor:
    """PyTorch has no arithmetic on this type; on the bits of signed numbers it is the same."""
    flip = _SIGN if op in ("max", "min") else 0
    signed = parts.view(torch.int64) ^ flip
    result = signed[0]
    for part in signed[1:]:
        result = FOLDS[op](result, part)
    return (result ^ flip).view(torch.uint64)
