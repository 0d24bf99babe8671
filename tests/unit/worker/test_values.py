"""Tensors to frames and back: any element type, shape and strides."""

from __future__ import annotations

from itertools import product
from operator import mul

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gt_protocol.dtypes import ITEM_SIZES
from gt_protocol.errors import MalformedFrame
from gt_protocol.programs import StoreShard
from gt_protocol.wire import CHUNK_BYTES, total_bytes
from gt_worker.errors import UnusableArgument
from gt_worker.strides import dense_strides, is_dense
from gt_worker.values import dtype_of, from_frames, to_frames

CPU = torch.device("cpu")
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def random_bytes(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Any bits at all, but for booleans, which have two values."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (size,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).view(shape) if size else torch.empty(shape, dtype=dtype)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in type, shape and bits, so that NaNs count as well."""
    bits = [value.contiguous().view(-1).view(torch.uint8) for value in (left, right)]
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(*bits)


@settings(deadline=None)
@given(st.sampled_from(sorted(ITEM_SIZES)), SHAPES, st.integers(0, 1 << 30), st.data())
def test_round_trip(name: str, shape: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    """What a client uploads, in any order of axes, comes back bit by bit, with the strides that it asked for."""
    dtype = dtype_of(name)
    value = random_bytes(dtype, shape, seed)
    strides = dense_strides(shape, data.draw(st.permutations(range(len(shape)))))
    dtype_name, sent_shape, frames = to_frames(value)
    assert (dtype_name, sent_shape) == (name, shape)
    assert total_bytes(frames) == value.numel() * value.element_size()
    stored = from_frames(StoreShard(1, shape, strides, name), frames, CPU)
    assert stored.stride() == strides
    assert same_bits(stored, value)
    assert same_bits(from_frames(StoreShard(1, shape, strides, name), to_frames(stored)[2], CPU), value)


@settings(deadline=None)
@given(SHAPES.filter(bool), st.data())
def test_cut_keeps_the_part_and_the_order_of_axes(shape: tuple[int, ...], data: st.DataObject) -> None:
    value = random_bytes(torch.float32, shape, 1)
    axis = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, shape[axis]))
    length = data.draw(st.integers(0, shape[axis] - start))
    backwards = dense_strides(shape, range(len(shape)))
    order = StoreShard(1, shape, backwards, "float32", (axis, start, length))
    stored = from_frames(order, to_frames(value)[2], CPU)
    assert same_bits(stored, value.narrow(axis, start, length))
    assert stored.stride() == dense_strides(stored.shape, backwards)


@given(SHAPES, st.data())
def test_dense_strides_are_dense_and_keep_the_order(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, 100), min_size=len(shape), max_size=len(shape)))
    strides = dense_strides(shape, order)
    assert is_dense(shape, strides)
    places = (range(size) for size in shape)
    reached = {sum(map(mul, index, strides)) for index in product(*places)}
    assert reached == set(range(torch.Size(shape).numel()))
    for left in range(len(shape)):
        for right in range(len(shape)):
            if order[left] > order[right] and min(shape, default=0) > 0:
                assert strides[left] >= strides[right]


def test_lazy_bits_are_resolved() -> None:
    """Conjugates and negatives that PyTorch has only marked are computed before their bytes are sent."""
    value = torch.tensor([1 + 2j, 3 - 4j])
    assert from_frames(StoreShard(1, (2,), (1,), "complex64"), to_frames(value.conj())[2], CPU).tolist() == [
        1 - 2j,
        3 + 4j,
    ]
    negative = value.conj().imag
    assert from_frames(StoreShard(1, (2,), (1,), "float32"), to_frames(negative)[2], CPU).tolist() == [-2, 4]


def test_frames_are_a_copy_in_chunks() -> None:
    value = torch.zeros(CHUNK_BYTES // 4 + 1)
    frames = to_frames(value)[2]
    value.fill_(1)
    assert [len(frame) for frame in frames] == [CHUNK_BYTES, 4]
    assert not any(bytes(frames[1]))


@pytest.mark.parametrize(
    ("order", "size"),
    [
        (StoreShard(1, (2, 2), (2, 1), "float32"), 15),
        (StoreShard(1, (2, 2), (2,), "float32"), 16),
        (StoreShard(1, (-2, -2), (2, 1), "float32"), 16),
        (StoreShard(1, (2, 2), (2, 1), "float32", (0, 1, 2)), 16),
        (StoreShard(1, (2, 2), (2, 1), "float32", (2, 0, 1)), 16),
    ],
)
def test_frames_that_do_not_fit_are_refused(order: StoreShard, size: int) -> None:
    with pytest.raises(MalformedFrame):
        from_frames(order, [bytes(size)], CPU)


def test_unknown_types_are_refused() -> None:
    with pytest.raises(UnusableArgument, match="quint8"):
        from_frames(StoreShard(1, (1,), (1,), "quint8"), [b"1"], CPU)
    with pytest.raises(UnusableArgument, match="convert it first"):
        to_frames(torch.eye(2).to_sparse())
