"""Interned metadata: the client knows shape, strides, offset and type of every tensor without asking anyone."""

from __future__ import annotations

from typing import Any, Final

import torch

from gt._torch import DEVICE_TYPE
from gt_protocol.blocks import TensorMeta
from gt_protocol.dtypes import ITEM_SIZES

FLEET: Final = torch.device(DEVICE_TYPE, 0)
DTYPES: Final[dict[str, torch.dtype]] = {name: getattr(torch, name) for name in ITEM_SIZES}
DTYPE_NAMES: Final[dict[torch.dtype, str]] = {dtype: name for name, dtype in DTYPES.items()}

#: Distinct metadata to remember; more begin anew, which costs misses and nothing else.
MAX_INTERNED: Final = 1 << 16


class Meta:
    """Metadata of a tensor. Two tensors with equal metadata share one object, so identity is enough for keys.

    Attributes:
        wrapper: Arguments of `make_wrapper` after the class.
        wire: The same as it travels.
        dtype: PyTorch's element type.
        pristine: The tensor has no content yet, and no instruction made it.
        twin: The same metadata with the other value of `pristine`.
    """

    __slots__ = ("_copies_in_order", "_copy_strides", "dtype", "pristine", "twin", "wire", "wrapper")

    def __init__(self, wire: TensorMeta, dtype: torch.dtype, twin: Meta | None = None) -> None:
        self.wire = wire
        self.dtype = dtype
        self.wrapper: tuple[Any, ...] = (
            torch.Size(wire.shape), wire.strides, wire.offset, None, dtype, torch.strided, FLEET,
        )  # fmt: skip
        self.pristine = twin is not None
        self.twin = twin
        self._copy_strides: tuple[int, ...] | None = None
        self._copies_in_order: bool | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each axis."""
        return self.wire.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Step of each axis, in elements."""
        return self.wire.strides

    @property
    def overlaps(self) -> bool:
        """Whether several elements are the same memory, as those of an expanded tensor are."""
        steps = zip(self.shape, self.strides, strict=True)
        return 0 not in self.shape and any(step == 0 and size > 1 for size, step in steps)

    @property
    def copy_strides(self) -> tuple[int, ...]:
        """Step of each axis of a copy: the same where the tensor is dense, else those that PyTorch gives it."""
        if self._copy_strides is None:
            self._copy_strides = torch.empty_like(meta_tensor(self)).stride()
        return self._copy_strides

    @property
    def copies_in_order(self) -> bool:
        """Whether a copy has its elements in row-major order."""
        if self._copies_in_order is None:
            self._copies_in_order = self.copy_strides == torch.empty(self.shape, device="meta").stride()
        return self._copies_in_order


class MetaTable:
    """Interns metadata."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Meta] = {}
        self._pristine: dict[Meta, Meta] = {}

    def get(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: torch.dtype) -> Meta:
        """The metadata object of these values."""
        key = (shape, strides, offset, dtype)
        meta = self._known.get(key)
        if meta is None:
            if len(self._known) >= MAX_INTERNED:
                self._known.clear()
                self._pristine.clear()
            wire = TensorMeta(tuple(map(int, shape)), tuple(map(int, strides)), int(offset), DTYPE_NAMES[dtype])
            meta = self._known.setdefault(key, Meta(wire, dtype))
        return meta

    def of(self, tensor: torch.Tensor) -> Meta:
        """The metadata of any strided tensor."""
        return self.get(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), tensor.dtype)

    def pristine(self, meta: Meta) -> Meta:
        """The twin that stands for a tensor without content."""
        twin = self._pristine.get(meta)
        if twin is None:
            twin = self._pristine.setdefault(meta, Meta(meta.wire, meta.dtype, meta))
        return twin


metas = MetaTable()


def meta_tensor(meta: Meta) -> torch.Tensor:
    """A tensor on PyTorch's `meta` device with this metadata, in a storage of its own."""
    shape, strides, offset = meta.wire.shape, meta.wire.strides, meta.wire.offset
    length = offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    storage = torch.empty(0 if 0 in shape and not offset else max(length, 1), dtype=meta.dtype, device="meta")
    return torch.as_strided(storage, shape, strides, offset)
