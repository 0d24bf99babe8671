"""Sizes, offsets and strides of shards, against what torch itself does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.rules.views import reshaped_axis
from gt_dispatcher.planner.shards import (
    chunk_sizes,
    chunk_starts,
    contiguous,
    coordinates,
    dense_strides,
    has_empty_shard,
    is_dense,
    local_shapes,
)
from gt_protocol.blocks import TensorMeta
from gt_protocol.placements import Replicate, Shard


@given(st.integers(0, 40), st.integers(1, 9))
def test_parts_are_those_of_torch_chunk(length: int, parts: int) -> None:
    sizes, starts = chunk_sizes(length, parts), chunk_starts(length, parts)
    chunks = torch.arange(length).chunk(parts)
    assert [size for size in sizes if size] == [len(chunk) for chunk in chunks if len(chunk)]
    assert len(sizes) == len(starts) == parts
    assert list(torch.arange(length)) == [
        index for start, size in zip(starts, sizes, strict=True) for index in range(start, start + size)
    ]
    assert all(start <= length for start in starts)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_coordinates_count_row_major(shape: list[int]) -> None:
    count = 1
    for size in shape:
        count *= size
    where = [coordinates(position, shape) for position in range(count)]
    assert where == [tuple(int(i) for i in row) for row in torch.ones(shape).nonzero()]


def test_two_mesh_dimensions_split_one_axis_twice() -> None:
    mesh = Mesh((0, 1, 2, 3), (2, 2))
    shapes = local_shapes((7, 3), mesh, (Shard(0), Shard(0)))
    assert [shape[0] for shape in shapes] == [2, 2, 2, 1]
    assert local_shapes((7, 3), mesh, (Replicate(), Shard(1))) == ((7, 2), (7, 1), (7, 2), (7, 1))


def test_an_empty_tensor_has_no_empty_shard() -> None:
    mesh = Mesh((0, 1, 2), (3,))
    assert has_empty_shard((2,), mesh, (Shard(0),))
    assert not has_empty_shard((3,), mesh, (Shard(0),))
    assert not has_empty_shard((0,), mesh, (Shard(0),))


_PERMUTED = st.lists(st.integers(2, 4), min_size=1, max_size=4).flatmap(
    lambda shape: st.tuples(st.just(shape), st.permutations(range(len(shape))))
)


@given(_PERMUTED)
def test_dense_strides_keep_the_order_of_axes(case: tuple[list[int], list[int]]) -> None:
    shape, order = case
    tensor = torch.empty(shape).permute(order)
    assert dense_strides(tuple(tensor.shape), tensor.stride()) == torch.empty_like(tensor).stride()


@pytest.mark.parametrize(
    ("tensor", "dense"),
    [
        (torch.empty(3, 4), True),
        (torch.empty(3, 4).t(), True),
        (torch.empty(3, 4)[:, :2], False),
        (torch.empty(3, 1).expand(3, 4), False),
        (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last), True),
    ],
)
def test_density(tensor: torch.Tensor, dense: bool) -> None:
    assert is_dense(TensorMeta(tuple(tensor.shape), tensor.stride(), 0, "float32")) is dense


def test_contiguous_metadata() -> None:
    assert contiguous((2, 3, 4), "int64") == TensorMeta((2, 3, 4), (12, 4, 1), 0, "int64")
    assert contiguous((), "int64") == TensorMeta((), (), 0, "int64")


_SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(_SHAPES, st.integers(0, 3), st.integers(1, 4), st.integers(0, 4), st.integers(1, 4))
def test_a_reshaped_shard_is_the_shard_of_the_reshaped(
    shape: list[int], axis: int, parts: int, cut: int, factor: int
) -> None:
    axis %= len(shape)
    total = torch.arange(int(torch.tensor(shape).prod()))
    tensor = total.reshape(shape)
    cut %= len(shape)
    result = [*shape[:cut], -1] if cut else [-1]
    if tensor.numel() % (factor * max(1, int(torch.tensor(shape[:cut]).prod()))) == 0:
        result = [*result[:-1], factor, -1]
    wanted = tensor.reshape(result)
    try:
        moved = reshaped_axis(axis, shape, tuple(wanted.shape), parts)
    except NoRule:
        return
    starts, sizes = chunk_starts(shape[axis], parts), chunk_sizes(shape[axis], parts)
    for start, size, to, length in zip(
        starts, sizes, chunk_starts(wanted.shape[moved], parts), chunk_sizes(wanted.shape[moved], parts), strict=True
    ):
        part = tensor.narrow(axis, start, size)
        local = [*wanted.shape[:moved], length, *wanted.shape[moved + 1 :]]
        assert torch.equal(part.reshape(local), wanted.narrow(moved, to, length))


def test_what_can_be_viewed_is_viewed() -> None:
    assert reshaped_axis(0, (8, 6), (48,), 4) == 0
    assert reshaped_axis(0, (48,), (8, 6), 4) == 0
    assert reshaped_axis(1, (2, 8, 3), (2, 24), 4) == 1
    assert reshaped_axis(0, (1, 8), (8,), 1) == 0
    with pytest.raises(NoRule, match="can't be viewed"):
        reshaped_axis(0, (6, 5), (30,), 4)
    with pytest.raises(NoRule, match="can't be viewed"):
        reshaped_axis(1, (2, 8), (16,), 2)
