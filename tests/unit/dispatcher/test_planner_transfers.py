"""Moves of storages, run on simulated workers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gt_dispatcher.planner.errors import PlanError, UnsupportedMesh
from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.plan import Region
from gt_dispatcher.planner.planner import Planner
from gt_protocol.blocks import TensorMeta
from gt_protocol.errors import ShardingError
from gt_protocol.operators import operator_table
from gt_protocol.placements import Partial, Placement, Replicate, Shard
from tests.support.planner.simulator import Simulator, placed

OPERATORS = operator_table()
WORKERS = 6


class Bench:
    """A planner and simulated workers."""

    def __init__(self) -> None:
        self.simulator = Simulator(OPERATORS, WORKERS)
        self.layouts = LayoutTable()
        self.planner = Planner(OPERATORS, self.layouts, self.simulator.groups)

    def put(self, value: torch.Tensor, mesh: Mesh, place: Placement, register: int = 0) -> Layout:
        """Places a value."""
        meta = TensorMeta(tuple(value.shape), value.stride(), 0, str(value.dtype).removeprefix("torch."))
        layout = self.layouts.get(mesh, (place,), meta)
        for worker, part in zip(mesh.workers, placed(value, layout), strict=True):
            self.simulator.files[worker][register] = part
        return layout


def meshes() -> st.SearchStrategy[Mesh]:
    """Meshes of one to four workers, in any order."""
    members = st.permutations(range(WORKERS)).flatmap(lambda order: st.integers(1, 4).map(lambda n: tuple(order[:n])))
    return members.map(lambda workers: Mesh(workers, (len(workers),)))


def values() -> st.SearchStrategy[torch.Tensor]:
    """Small tensors of whole numbers, with axes in any order in memory."""
    shapes = st.lists(st.integers(0, 5), min_size=0, max_size=3)
    return shapes.flatmap(lambda shape: st.permutations(range(len(shape))).map(lambda order: _value(shape, order)))


def _value(shape: list[int], order: list[int]) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    return torch.arange(1.0, count + 1).reshape(shape).permute(order)


def placements(rank: int, product: bool = False) -> st.SearchStrategy[Placement]:
    """Any placement of a tensor of a rank."""
    partials = [Partial(op) for op in ("sum", "avg", "max", "min")]
    return st.sampled_from([Replicate(), *partials, *[Shard(axis) for axis in range(rank)]])


@given(st.data(), values(), meshes(), meshes())
@settings(max_examples=200, deadline=None)
def test_any_placement_becomes_any_other(data: st.DataObject, value: torch.Tensor, source: Mesh, target: Mesh) -> None:
    if data.draw(st.booleans()):
        target = source
    before, after = data.draw(placements(value.dim())), data.draw(placements(value.dim()))
    bench = Bench()
    layout = bench.put(value, source, before)
    plan = bench.planner.relayout(layout, target, (after,))
    bench.simulator.run(plan, (0, 1))
    (made,) = plan.outputs
    assert (made.mesh, made.meta) == (target, layout.meta)
    assert made.placements == ((after,) if target.size > 1 else (Replicate(),))
    assert torch.equal(bench.simulator.value(made, 1), value)
    for worker in target.workers:
        copy = bench.simulator.files[worker][1]
        if value.numel() and isinstance(made.placements[0], Replicate):
            assert _order(copy) == _order(value)
        copy += 1
    assert torch.equal(bench.simulator.value(layout, 0), value), "the copy shares memory with the original"


def _order(tensor: torch.Tensor) -> list[int]:
    """Axes by their strides, those that have more than one index."""
    axes = [axis for axis in range(tensor.dim()) if tensor.shape[axis] > 1]
    return sorted(axes, key=lambda axis: -tensor.stride(axis))


@given(values(), meshes(), st.sampled_from(["sum", "avg", "max", "min"]))
@settings(max_examples=50, deadline=None)
def test_reducing_in_place_reduces_every_view(value: torch.Tensor, mesh: Mesh, op: str) -> None:
    if mesh.size == 1:
        return
    bench = Bench()
    layout = bench.put(value, mesh, Partial(op))
    views = [bench.simulator.files[worker][0].reshape(-1)[1:] for worker in mesh.workers]
    bench.simulator.run(bench.planner.reduce_in_place(layout), (0,))
    whole = bench.layouts.get(mesh, (Replicate(),), layout.meta)
    assert torch.equal(bench.simulator.value(whole, 0), value)
    if value.is_contiguous():
        assert all(torch.equal(view, value.reshape(-1)[1:]) for view in views)


def test_a_whole_storage_has_nothing_to_reduce() -> None:
    bench = Bench()
    layout = bench.put(torch.ones(2), Mesh((0, 1), (2,)), Replicate())
    with pytest.raises(PlanError, match="not partial"):
        bench.planner.reduce_in_place(layout)


def test_nothing_moves_to_workers_that_have_it() -> None:
    bench = Bench()
    wide, narrow = Mesh((0, 1, 2), (3,)), Mesh((2, 0), (2,))
    layout = bench.put(torch.ones(4), wide, Replicate())
    plan = bench.planner.relayout(layout, narrow, (Shard(0),))
    assert plan.traffic == ()
    assert set(plan.routines) == {0, 2}


def test_workers_with_equal_work_share_a_routine() -> None:
    bench = Bench()
    mesh = Mesh((0, 1, 2, 3), (4,))
    layout = bench.put(torch.ones(8), mesh, Shard(0))
    gathered = bench.planner.relayout(layout, mesh, (Replicate(),))
    assert len({id(routine) for routine in gathered.routines.values()}) == 1
    whole = bench.put(torch.ones(8), mesh, Replicate())
    sliced = bench.planner.relayout(whole, mesh, (Shard(0),))
    assert len({id(routine) for routine in sliced.routines.values()}) == 4


def test_views_are_made_anew_over_a_replicated_root() -> None:
    bench = Bench()
    mesh = Mesh((0, 1), (2,))
    value = torch.arange(12.0).reshape(3, 4)
    root = bench.planner.relayout(bench.put(value, mesh, Shard(0)), mesh, (Replicate(),))
    bench.simulator.run(root, (0, 1))
    meta = TensorMeta((2, 3), (1, 4), 1, "float32")
    plan = bench.planner.restride(root.outputs[0], meta)
    bench.simulator.run(plan, (1, 2))
    assert plan.outputs[0].meta == meta
    assert torch.equal(bench.simulator.value(plan.outputs[0], 2), value[:, 1:3].t())
    bench.simulator.files[0][2].zero_()
    assert bench.simulator.files[0][1][1, 1] == 0


def test_a_split_root_or_one_with_gaps_is_refused() -> None:
    bench = Bench()
    mesh = Mesh((0, 1), (2,))
    split = bench.put(torch.ones(4), mesh, Shard(0))
    with pytest.raises(PlanError, match="whole storage"):
        bench.planner.restride(split, split.meta)
    gaps = bench.layouts.get(mesh, (Replicate(),), TensorMeta((2,), (3,), 0, "float32"))
    with pytest.raises(PlanError, match="clone it"):
        bench.planner.restride(gaps, gaps.meta)


@given(values(), meshes(), st.data())
@settings(max_examples=60, deadline=None)
def test_uploads_are_cut_so_that_their_parts_are_the_value(
    value: torch.Tensor, mesh: Mesh, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(-value.dim(), value.dim() - 1)) if value.dim() else None
    place = Replicate() if axis is None else Shard(axis)
    bench = Bench()
    meta = TensorMeta(tuple(value.shape), value.stride(), 0, "float32")
    layout, cuts = bench.planner.upload(meta, Region(mesh, (place,)), Mesh.single(0))
    assert set(cuts) == set(mesh.workers)
    axis, workers = bench.planner.parts(layout)
    parts = [value if cuts[worker] is None else value.narrow(*cuts[worker]) for worker in workers]
    assert torch.equal(torch.cat(parts, axis) if len(parts) > 1 else parts[0], value)


def test_without_a_region_uploads_go_home() -> None:
    bench = Bench()
    layout, cuts = bench.planner.upload(TensorMeta((4,), (1,), 0, "int64"), None, Mesh.single(3))
    assert layout.mesh == Mesh.single(3)
    assert cuts == {3: None}


def test_placements_that_do_not_fit_are_refused() -> None:
    bench = Bench()
    mesh = Mesh((0, 1), (2,))
    with pytest.raises(ShardingError, match="no axis 2"):
        bench.planner.upload(TensorMeta((4, 4), (4, 1), 0, "int64"), Region(mesh, (Shard(2),)), mesh)
    grid = Mesh((0, 1, 2, 3), (2, 2))
    with pytest.raises(UnsupportedMesh, match="one dimension"):
        bench.planner.upload(TensorMeta((4,), (1,), 0, "int64"), Region(grid, None), mesh)
    partial = bench.put(torch.ones(2), mesh, Partial("sum"))
    with pytest.raises(PlanError, match="reduced before"):
        bench.planner.parts(partial)
