"""Where instructions run, what they move, and what must come first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gt_dispatcher.planner.errors import MissingWorker, PlanError, UnsupportedMesh
from gt_dispatcher.planner.layout import LayoutTable, Mesh
from gt_dispatcher.planner.plan import Change, Prepare, Region
from gt_dispatcher.planner.regions import resolve_region
from gt_protocol.errors import ShardingError
from gt_protocol.placements import Partial, Replicate, Shard
from gt_protocol.programs import AllReduceStep, BroadcastStep, CallStep, CopyStep, SliceStep
from gt_protocol.sharding import MeshSpec, SignalRule
from tests.support.planner.single import OPERATORS, Bench, replayed

ONE, PAIR, TRIO = Mesh.single(0), Mesh((0, 1), (2,)), Mesh((3, 4, 5), (3,))
R, P = Replicate(), Partial("sum")
A, B = torch.arange(8.0).reshape(4, 2), torch.ones(4, 2)

_WITHOUT_TORCH = """
import sys
from gt_dispatcher.planner.layout import LayoutTable, Mesh
from gt_dispatcher.planner.planner import Planner
from gt_protocol.arguments import Operand
from gt_protocol.blocks import Call, NewTensor, TensorMeta
from gt_protocol.operators import operator_table
from gt_protocol.placements import Replicate, Shard
table, layouts = operator_table(), LayoutTable()
planner = Planner(table, layouts, lambda workers: 1)
meta = TensorMeta((4, 4), (4, 1), 0, "float32")
call = Call(table.get("aten::mm").index, (Operand(0), Operand(1)), (), (NewTensor(meta),))
for mesh in (Mesh.single(0), Mesh((0, 1), (2,))):
    operands = layouts.get(mesh, (Shard(0),), meta), layouts.get(mesh, (Replicate(),), meta)
    planner.plan(call, operands, None, mesh)
assert "torch" not in sys.modules
"""


def test_the_planner_loads_no_torch() -> None:
    path = [str(Path(entry).resolve()) for entry in sys.path if entry]
    script = f"import sys\nsys.path[:] = {path!r}\n{_WITHOUT_TORCH}"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_on_one_worker_a_call_is_the_client_s_own() -> None:
    plan = Bench().plan(torch.add, [(A, ONE, R), (B, ONE, R)])
    (routine,) = plan.routines.values()
    (step,) = routine.steps
    assert isinstance(step, CallStep)
    assert OPERATORS[step.op].name == "aten::add.Tensor"
    assert (routine.inputs, routine.outputs, step.results) == (2, 1, (2,))
    assert plan.outputs[0].mesh == ONE
    assert plan.traffic == ()


def test_an_instruction_runs_in_its_region() -> None:
    plan = Bench().plan(torch.add, [(A, ONE, R), (B, ONE, R)], Region(TRIO, None))
    assert plan.outputs[0].mesh == TRIO
    assert plan.outputs[0].whole
    assert [move.kind for move in plan.traffic] == ["broadcast", "broadcast"]
    assert {type(step) for step in plan.routines[0].steps} == {BroadcastStep}


def test_without_a_region_it_runs_on_the_largest_mesh() -> None:
    plan = Bench().plan(torch.add, [(A, ONE, R), (B, PAIR, R)])
    assert plan.outputs[0].mesh == PAIR
    assert [move.workers for move in plan.traffic] == [(0, 1)]


def test_of_equal_meshes_the_first_operand_s_is_taken() -> None:
    other = Mesh((2, 3), (2,))
    plan = Bench().plan(torch.add, [(A, other, R), (B, PAIR, R)])
    assert plan.outputs[0].mesh == other


def test_what_writes_runs_where_its_target_lies() -> None:
    plan = Bench().plan(lambda a, b: a.add_(b), [(A.clone(), ONE, R), (B, PAIR, Shard(0))], Region(TRIO, None))
    assert plan.outputs == ()
    assert [move.kind for move in plan.traffic] == ["all_gather"]
    assert isinstance(plan.routines[0].steps[-1], CallStep)
    assert not any(isinstance(step, CallStep) for step in plan.routines[1].steps)


def test_a_view_stays_with_its_base() -> None:
    plan = Bench().plan(lambda a: a.t(), [(A, PAIR, Shard(0))], Region(TRIO, None))
    assert (plan.outputs[0].mesh, plan.outputs[0].placements) == (PAIR, (Shard(1),))
    assert plan.traffic == ()


def test_a_target_is_never_moved() -> None:
    plan = Bench().plan(lambda a, b: a.add_(b), [(A.clone(), PAIR, Shard(0)), (B, PAIR, Shard(1))])
    assert [move.kind for move in plan.traffic] == ["all_to_all"]
    plan = Bench().plan(lambda a, b: a.add_(b), [(A.clone(), PAIR, R), (B, PAIR, Shard(0))])
    assert [move.kind for move in plan.traffic] == ["all_gather"]


def test_a_write_without_a_rule_goes_back_into_the_shards() -> None:
    index = torch.tensor([3, 0])
    plan = Bench().plan(
        lambda a, b: torch.ops.aten.index_fill_.int_Scalar(a, 0, b, 7.0),
        [(A.clone(), PAIR, Shard(0)), (index, PAIR, R)],
    )
    assert "no rule" in plan.fallback
    *_, cut, copy = plan.routines[1].steps
    assert isinstance(cut, SliceStep)
    assert (cut.start, cut.length) == (2, 2)
    assert isinstance(copy, CopyStep)
    assert copy.target == 0


def test_a_view_that_shards_can_not_show_needs_its_storage_whole() -> None:
    answer = Bench().ask(lambda a: a[1:3], [(A, PAIR, Shard(0))])
    assert answer == Prepare(0, Change.REPLICATE)
    assert isinstance(
        Bench().ask(lambda a: a[:, 1:], [(A, PAIR, Shard(0))]), type(Bench().plan(torch.neg, [(A, ONE, R)]))
    )


@pytest.mark.parametrize(
    "program",
    [
        torch.relu,
        torch.clone,
        lambda a: a.zero_(),
        lambda a: a.mul_(2.0),
        lambda a: torch.ops.aten._to_copy(a, dtype=torch.float64),
        lambda a: a.view(torch.int32),
        torch.amax,
    ],
)
def test_partial_sums_are_reduced_before_what_is_not_linear(program: object) -> None:
    assert Bench().ask(program, [(A.clone(), PAIR, P)]) == Prepare(0, Change.REDUCE)


@pytest.mark.parametrize(
    "program", [torch.neg, lambda a: a * 2.0, lambda a: a / 3, lambda a: a.t(), lambda a: a.view(8), torch.sum]
)
def test_partial_sums_stay_partial_through_what_is_linear(program: object) -> None:
    plan = Bench().plan(program, [(A, PAIR, P)])
    assert plan.outputs[0].placements == (P,)
    assert plan.traffic == ()


def test_partial_sums_add_up_but_do_not_mix() -> None:
    assert Bench().plan(torch.add, [(A, PAIR, P), (B, PAIR, P)]).outputs[0].placements == (P,)
    assert Bench().ask(torch.add, [(A, PAIR, R), (B, PAIR, P)]) == Prepare(1, Change.REDUCE)
    assert Bench().ask(torch.mul, [(A, PAIR, P), (B, PAIR, P)]) == Prepare(0, Change.REDUCE)
    whole = torch.ones(4, 2, dtype=torch.int64)
    assert Bench().ask(torch.neg, [(whole, PAIR, P)]) == Prepare(0, Change.REDUCE)


def test_partial_sums_elsewhere_are_reduced_there() -> None:
    assert Bench().ask(torch.add, [(A, TRIO, R), (B, PAIR, P)]) == Prepare(1, Change.REDUCE)


def test_shapes_of_partial_sums_need_no_reduction() -> None:
    assert Bench().plan(torch.zeros_like, [(A, PAIR, P)]).outputs[0].placements == (R,)


def test_factories_follow_the_region() -> None:
    region = Region(TRIO, (Shard(0),))
    plan = Bench().plan(lambda: torch.ones(7, 2), [], region)
    assert plan.outputs[0].placements == (Shard(0),)
    sizes = [routine.steps[0].args[0].items[0].value for routine in plan.routines.values()]
    assert sizes == [3, 3, 1]
    plan = Bench().plan(lambda: torch.arange(7), [], region)
    assert [type(step) for step in plan.routines[4].steps] == [CallStep, SliceStep]
    assert Bench().plan(lambda: torch.ones(()), [], region).outputs[0].whole


def test_factories_without_a_region_are_made_at_home() -> None:
    assert Bench().plan(lambda: torch.ones(7, 2), [], home=PAIR).outputs[0].mesh == PAIR


def test_a_region_s_placement_must_fit() -> None:
    with pytest.raises(ShardingError, match="no axis 1"):
        Bench().ask(lambda: torch.ones(7), [], Region(PAIR, (Shard(1),)))


def test_lists_that_lie_alike_are_one_call() -> None:
    def program(*tensors: torch.Tensor) -> None:
        torch._foreach_add_(list(tensors[:2]), list(tensors[2:]), alpha=2.0)

    tensors = [A.clone(), B.clone(), A.clone(), B.clone()]
    plan = Bench().plan(program, [(tensor, PAIR, R) for tensor in tensors])
    assert [len(routine.steps) for routine in plan.routines.values()] == [1, 1]
    split = [(A.clone(), PAIR, Shard(0)), (B.clone(), PAIR, R), (A, PAIR, R), (B, PAIR, Shard(1))]
    plan = Bench().plan(program, split)
    assert [type(step) for step in plan.routines[0].steps].count(CallStep) == 1
    assert [move.kind for move in plan.traffic] == ["all_gather"]


def test_lists_over_several_meshes_are_a_call_on_each() -> None:
    def program(*tensors: torch.Tensor) -> None:
        torch._foreach_mul_(list(tensors), 2.0)

    plan = Bench().plan(program, [(A.clone(), PAIR, R), (B.clone(), TRIO, Shard(0)), (A.clone(), PAIR, Shard(1))])
    calls = {
        worker: [step for step in routine.steps if isinstance(step, CallStep)]
        for worker, routine in plan.routines.items()
    }
    assert {worker: len(steps[0].args[0].items) for worker, steps in calls.items()} == {0: 2, 1: 2, 3: 1, 4: 1, 5: 1}
    assert plan.traffic == ()


def test_each_partial_item_of_a_list_is_reduced_once() -> None:
    def program(*tensors: torch.Tensor) -> None:
        torch._foreach_add_(list(tensors[:1]), list(tensors[1:]))

    assert Bench().ask(program, [(A.clone(), PAIR, R), (B, PAIR, P)]) == Prepare(1, Change.REDUCE)


def test_a_reduction_in_place_reduces_the_storage() -> None:
    bench = Bench()
    plan = bench.planner.reduce_in_place(bench.layout(A, PAIR, P))
    for routine in plan.routines.values():
        (step,) = routine.steps
        assert isinstance(step, AllReduceStep)
        assert step.source == step.target == 0


def test_reshapes_in_place_are_refused() -> None:
    with pytest.raises(PlanError, match="without the underscore"):
        Bench().ask(lambda a: a.t_(), [(A.clone(), ONE, R)])


def test_meshes_of_two_dimensions_are_refused() -> None:
    grid = Mesh((0, 1, 2, 3), (2, 2), ("dp", "tp"))
    with pytest.raises(UnsupportedMesh, match="one dimension"):
        Bench().ask(torch.neg, [(A, PAIR, R)], Region(grid, None))


def test_equal_meshes_may_have_different_names() -> None:
    named = Mesh((0, 1), (2,), ("dp",))
    assert named == PAIR
    layouts = LayoutTable()
    meta = Bench().layout(A, PAIR, R).meta
    assert layouts.get(named, (Shard(0),), meta) is layouts.get(PAIR, (Shard(0),), meta)


def test_rules_become_regions() -> None:
    rule = SignalRule("batch", MeshSpec((1, 2), (2,), ("dp",)), (Shard(0),), line=4)
    assert resolve_region(rule, {0, 1, 2}) == Region(Mesh((1, 2), (2,)), (Shard(0),))
    everyone = SignalRule("batch", MeshSpec((), (0,), ("0",)), (Shard(0),))
    region = resolve_region(everyone, {2, 0})
    assert region is not None
    assert region.mesh == Mesh((0, 2), (2,))
    assert resolve_region(SignalRule("quiet"), {0}) is None


def test_rules_that_can_not_be_carried_out_say_why() -> None:
    absent = SignalRule("batch", MeshSpec((1, 7), (2,), ("0",)), None, line=4)
    with pytest.raises(MissingWorker, match=r':4:0: signal "batch": worker 7 is not there \(workers 0, 1 are\)'):
        resolve_region(absent, {0, 1})
    grid = SignalRule("batch", MeshSpec((0, 1, 2, 3), (2, 2), ("a", "b")), None, line=5)
    with pytest.raises(UnsupportedMesh, match="one dimension"):
        resolve_region(grid, {0, 1, 2, 3})
    weighted = SignalRule("batch", MeshSpec((0, 1), (2,), ("0",)), (Shard(0),), weights=(3.0, 1.0), line=6)
    with pytest.raises(UnsupportedMesh, match="weights"):
        resolve_region(weighted, {0, 1})


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.normal_(),
        lambda x: x.uniform_(0, 2),
        lambda x: x.bernoulli_(0.3),
        torch.rand_like,
        torch.bernoulli,
        lambda x: torch.native_dropout(x, 0.4, True),
        lambda x: torch.dropout(x, 0.4, True),
        lambda x: torch.randn(7, 5),
        lambda x: torch.randperm(9),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_random_numbers_do_not_depend_on_the_workers(program: object, workers: int, axis: int) -> None:
    region = Region(Mesh(tuple(range(workers)), (workers,)), (Shard(0),))
    report = replayed(program, [torch.rand(7, 5)], [Shard(axis)], workers, region)
    assert report.worst == 0.0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_dropout_gathers_nothing(order: tuple[int, int]) -> None:
    report = replayed(lambda x: torch.native_dropout(x, 0.4, True), [torch.rand(6, 4).permute(order)], [Shard(0)], 3)
    assert report.traffic == []
    assert not report.fallbacks
