"""Tensors to raw frames and back. Frames hold a dense tensor in row-major order, in the host's byte order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from gt_protocol.dtypes import ITEM_SIZES
from gt_protocol.errors import MalformedFrame
from gt_protocol.programs import StoreShard
from gt_protocol.wire import Buffer, Frames, chunk
from gt_worker.errors import UnusableArgument
from gt_worker.strides import count, dense_strides, is_dense

DTYPES: Final[dict[str, torch.dtype]] = {name: getattr(torch, name) for name in ITEM_SIZES}
NAMES: Final[dict[torch.dtype, str]] = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: str) -> torch.dtype:
    """The element type of a name.

    Raises:
        UnusableArgument: No tensor of this type can cross the wire.
    """
    dtype = DTYPES.get(name)
    if dtype is None:
        raise UnusableArgument(f"element type {name!r} is not supported; use one of {', '.join(DTYPES)}")
    return dtype


def to_frames(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], Frames]:
    """Copies a tensor's elements into frames, so that later writes to the tensor do not reach them.

    Returns:
        Name of the element type, shape, and the frames.

    Raises:
        UnusableArgument: The tensor has an element type or layout that can't cross the wire.
    """
    name = NAMES.get(tensor.dtype)
    if name is None or tensor.layout is not torch.strided:
        raise UnusableArgument(f"a tensor of type {tensor.dtype}, {tensor.layout}, can't be read; convert it first")
    shape = tuple(tensor.shape)
    if tensor.numel() == 0:
        return name, shape, []
    memory = bytearray(tensor.numel() * tensor.element_size())
    torch.frombuffer(memory, dtype=tensor.dtype).view(shape).copy_(tensor)
    return name, shape, chunk(memory)


def from_frames(order: StoreShard, frames: Sequence[Buffer], device: torch.device) -> torch.Tensor:
    """Makes the tensor of an upload, or the part of it that is kept.

    Raises:
        MalformedFrame: The frames are not what the order says.
        UnusableArgument: The element type can't cross the wire.
    """
    dtype = dtype_of(order.dtype)
    shape, strides = order.shape, order.strides
    memory = bytearray().join(frames)
    if len(shape) != len(strides) or min(shape, default=0) < 0 or len(memory) != count(shape) * dtype.itemsize:
        raise MalformedFrame(f"{len(memory)} bytes for {order.dtype}{shape} with strides {strides}")
    whole = torch.frombuffer(memory, dtype=dtype).view(shape) if memory else torch.empty(shape, dtype=dtype)
    if order.cut is not None:
        axis, start, length = order.cut
        if not 0 <= axis < len(shape) or not 0 <= start <= start + length <= shape[axis]:
            raise MalformedFrame(f"cut {order.cut} of {shape}")
        whole = whole.narrow(axis, start, length)
    if order.cut is not None or not is_dense(shape, strides):
        strides = dense_strides(whole.shape, strides)
    # A copy, even where the bytes could be used as they are: PyTorch can't resize memory that it did not allocate.
    return torch.empty_strided(whole.shape, strides, dtype=dtype, device=device).copy_(whole)
