"""Arithmetic of strides: dense layouts that keep the order of another one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor whose axes lie in memory in the same order as those of another one.

    Args:
        shape: Shape of the tensor.
        order: Strides to take the order from, one for each axis; equal ones keep the order of the axes.
    """
    strides = [0] * len(shape)
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: (order[axis], -axis)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill a stretch of memory without gaps and without sharing places."""
    if 0 in shape:
        return True
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: strides[axis]):
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def count(shape: Sequence[int]) -> int:
    """Number of elements."""
    return prod(shape)
