"""Collectives among real workers: values, uneven and empty shards, all element types, failures and lost peers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from gt_protocol.arguments import Operand
from gt_protocol.dtypes import ITEM_SIZES
from gt_protocol.failure import Failure, FailureKind
from gt_protocol.programs import (
    AliasStep,
    AllGatherStep,
    AllReduceStep,
    AllToAllStep,
    BroadcastStep,
    CallStep,
    DropGroup,
    FormGroup,
    Member,
    ReduceScatterStep,
    RestrideStep,
    Routine,
    Step,
)
from gt_worker.values import dtype_of
from tests.support.worker_fleet import WorkerFleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerFleet]:
    """Three workers, shared by tests that leave them whole."""
    with WorkerFleet(3, tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


def one(step: Step, *more: Step) -> Routine:
    """A routine from one register to another."""
    return Routine(1, 1, 0, 0, (step, *more), "test")


def collective(fleet: WorkerFleet, step: Step, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Runs a step from local register 0 to 1 on all workers."""
    targets = [fleet.number() for _ in inputs]
    for index, value in enumerate(inputs):
        fleet.run(index, one(step), [fleet.store(index, value), targets[index]])
    results = [fleet.fetch(index, target) for index, target in enumerate(targets)]
    assert all(isinstance(result, torch.Tensor) for result in results), results
    return [result for result in results if isinstance(result, torch.Tensor)]


def sample(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Small whole numbers, so that sums and products are exact in every type."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 3, shape, generator=generator).to(dtype)


def reduced(parts: Sequence[torch.Tensor], op: str) -> torch.Tensor:
    """What PyTorch gives for the same reduction, in a type wide enough."""
    dtype = parts[0].dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64
    stacked = torch.stack([part.to(wide) for part in parts])
    if op in ("sum", "avg"):
        result = stacked.sum(0) / (len(parts) if op == "avg" else 1)
    elif op == "product":
        result = stacked.prod(0)
    else:
        result = stacked.amax(0) if op == "max" else stacked.amin(0)
    return result.to(dtype)


def reductions() -> Iterator[tuple[str, str]]:
    """Each element type with each reduction that is defined for it."""
    for dtype in ITEM_SIZES:
        kind = dtype_of(dtype)
        yield dtype, "sum"
        if kind.is_floating_point or kind.is_complex:
            yield dtype, "avg"
        if not kind.is_complex:
            yield from ((dtype, op) for op in ("max", "min", "product"))


@pytest.mark.parametrize(("dtype", "op"), list(reductions()))
def test_reductions_of_all_types(fleet: WorkerFleet, dtype: str, op: str) -> None:
    kind = dtype_of(dtype)
    group = fleet.group(0, 1, 2)
    inputs = [sample(kind, (4, 3), seed) for seed in range(3)]
    want = reduced(inputs, op)
    for result in collective(fleet, AllReduceStep(group, 0, 1, op), inputs):
        assert_same(result, want)
    parts = collective(fleet, ReduceScatterStep(group, 0, 1, 0, (2, 0, 2), op), inputs)
    assert_same(torch.cat([part.view(torch.uint8) for part in parts]).view(kind), want)
    for index in range(3):
        fleet.order(index, DropGroup(group))


def assert_same(result: torch.Tensor, want: torch.Tensor) -> None:
    """Equal in type and shape, and in value as far as the type can tell."""
    assert result.dtype == want.dtype
    assert result.shape == want.shape
    wide = torch.complex128 if want.dtype.is_complex else torch.float64
    torch.testing.assert_close(result.to(wide), want.to(wide), rtol=4 * resolution(want.dtype), atol=0)


def resolution(dtype: torch.dtype) -> float:
    """Relative distance of neighbouring numbers."""
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


def test_uint64_keeps_its_highest_bit(fleet: WorkerFleet) -> None:
    group = fleet.group(0, 1, 2)
    inputs = [torch.tensor([value, 5], dtype=torch.uint64) for value in ((1 << 63) + 1, 7, 1 << 62)]
    for result in collective(fleet, AllReduceStep(group, 0, 1, "max"), inputs):
        assert result.tolist() == [(1 << 63) + 1, 5]
    for result in collective(fleet, AllReduceStep(group, 0, 1, "min"), inputs):
        assert result.tolist() == [7, 5]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 1, 2), (0, 4, 1), (5, 0, 0), (0, 0, 0)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16, torch.complex64])
def test_gather(fleet: WorkerFleet, sizes: tuple[int, ...], axis: int, dtype: torch.dtype) -> None:
    group = fleet.group(0, 1, 2)
    shape = [3, 4]
    shape[axis] = sum(sizes)
    whole = sample(dtype, tuple(shape), 1)
    results = collective(fleet, AllGatherStep(group, 0, 1, axis, sizes), whole.split(sizes, axis))
    assert all(torch.equal(result, whole) for result in results)


@pytest.mark.parametrize(("gather", "split"), [((2, 1, 3), (1, 2, 1)), ((6, 0, 0), (0, 0, 4)), ((2, 2, 2), (2, 2, 0))])
def test_all_to_all(fleet: WorkerFleet, gather: tuple[int, ...], split: tuple[int, ...]) -> None:
    group = fleet.group(0, 1, 2)
    whole = torch.arange(24.0).view(6, 4)
    step = AllToAllStep(group, 0, 1, 0, gather, 1, split)
    results = collective(fleet, step, whole.split(gather, 0))
    for result, want in zip(results, whole.split(split, 1), strict=True):
        assert torch.equal(result, want)


def test_strides_survive(fleet: WorkerFleet) -> None:
    """Shards of a column-major tensor make a column-major tensor, as a later view by strides needs."""
    group = fleet.group(0, 1, 2)
    whole = torch.arange(12.0).view(3, 4).t()
    gathered = [fleet.number() for _ in range(3)]
    seen = [fleet.number() for _ in range(3)]
    for index, part in enumerate(whole.split((2, 1, 1), 0)):
        register = fleet.store(index, part.contiguous(), (1, 2) if index == 0 else (1, 1))
        steps = (AllGatherStep(group, 0, 1, 0, (2, 1, 1), (1, 4)), RestrideStep(1, 2, (12,), (1,), 0))
        fleet.run(index, Routine(1, 2, 0, 0, steps, "test"), [register, gathered[index], seen[index]])
    for index in range(3):
        flat = fleet.fetch(index, seen[index])
        assert isinstance(flat, torch.Tensor)
        assert flat.tolist() == list(range(12))


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3), (3, 1)), ((2, 3), (1, 2)), ((), ()), ((0, 3), (3, 1)), ((2, 3), (0, 1))]
)
def test_broadcast(fleet: WorkerFleet, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    group = fleet.group(2, 0)
    value = torch.randn(3).expand(2, 3) if strides == (0, 1) else torch.randn(shape)
    source = fleet.store(0, value.contiguous())
    targets = {0: fleet.number(), 2: fleet.number()}
    sender = BroadcastStep(group, 1, 0, 1, shape, strides, "float32")
    receiver = BroadcastStep(group, 1, -1, 0, shape, strides, "float32")
    fleet.run(0, one(sender), [source, targets[0]])
    fleet.run(2, Routine(0, 1, 0, 0, (receiver,), "test"), [targets[2]])
    for index, target in targets.items():
        result = fleet.fetch(index, target)
        assert isinstance(result, torch.Tensor)
        assert torch.equal(result, value)


def test_broadcast_is_a_copy(fleet: WorkerFleet) -> None:
    """Writing to the result does not reach the sender's own tensor."""
    group = fleet.group(0, 1)
    add = fleet.table.get("aten::add_.Tensor")
    assert add is not None
    source = fleet.store(0, torch.ones(2))
    target, other = fleet.number(), fleet.number()
    write = CallStep(add.index, (Operand(1), Operand(1)), (), (-1,))
    fleet.run(0, one(BroadcastStep(group, 0, 0, 1, (2,), (1,), "float32"), write), [source, target])
    receive = BroadcastStep(group, 0, -1, 0, (2,), (1,), "float32")
    fleet.run(1, Routine(0, 1, 0, 0, (receive,), "test"), [other])
    values = [fleet.fetch(0, source), fleet.fetch(0, target), fleet.fetch(1, other)]
    assert [value.tolist() for value in values if isinstance(value, torch.Tensor)] == [[1, 1], [2, 2], [1, 1]]


def test_all_reduce_in_place_reaches_every_view(fleet: WorkerFleet) -> None:
    group = fleet.group(0, 1, 2)
    bases, rows = [], []
    for index in range(3):
        base, row = fleet.store(index, torch.full((2, 2), index + 1.0)), fleet.number()
        view = RestrideStep(0, 1, (2,), (1,), 2)
        fleet.run(index, one(view), [base, row])
        fleet.run(index, Routine(1, 0, 0, 0, (AllReduceStep(group, 0, 0, "sum"),), "test"), [row])
        bases.append(base)
        rows.append(row)
    for index in range(3):
        values = fleet.fetch(index, bases[index]), fleet.fetch(index, rows[index])
        assert [value.tolist() for value in values if isinstance(value, torch.Tensor)] == [[[6, 6], [6, 6]], [6, 6]]


COLLECTIVES = {
    "all_reduce": lambda group: AllReduceStep(group, 0, 1, "sum"),
    "in_place": lambda group: AllReduceStep(group, 0, 0, "sum"),
    "all_gather": lambda group: AllGatherStep(group, 0, 1, 0, (3, 3, 3)),
    "reduce_scatter": lambda group: ReduceScatterStep(group, 0, 1, 0, (1, 1, 1), "sum"),
    "all_to_all": lambda group: AllToAllStep(group, 0, 1, 0, (3, 3, 3), 1, (1, 1, 1)),
    "broadcast": lambda group: BroadcastStep(group, 1, 0, 1, (3, 3), (3, 1), "float32"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_failed_operand_fails_everywhere_and_the_next_collective_works(fleet: WorkerFleet, name: str) -> None:
    """The member that has no value does not even know its shape; the others neither hang nor get a wrong value."""
    group = fleet.group(0, 1, 2)
    step = COLLECTIVES[name](group)
    matmul = fleet.table.get("aten::mm")
    assert matmul is not None
    bad = one(CallStep(matmul.index, (Operand(0), Operand(0)), (), (1,)))
    began = time.monotonic()
    results = []
    for index in range(3):
        register, target = fleet.store(index, torch.ones(3, 3)), fleet.number()
        if index == 1:
            odd, register = fleet.store(index, torch.ones(2, 3)), fleet.number()
            fleet.run(index, bad, [odd, register])
        steps = (step,) if name != "in_place" else (step, AliasStep(0, 1))
        fleet.run(index, one(*steps), [register, target])
        results.append((index, target))
    failures = [fleet.fetch(index, target) for index, target in results]
    assert time.monotonic() - began < 5
    for failure in failures:
        assert isinstance(failure, Failure), failure
        assert failure.kind == FailureKind.OPERATOR
        assert failure.worker == 1
        assert failure.cause == "RuntimeError"
        assert failure.operands == ("float32(2, 3)", "float32(2, 3)")
    again = collective(fleet, AllReduceStep(group, 0, 1, "sum"), [torch.full((2,), float(index)) for index in range(3)])
    assert [result.tolist() for result in again] == [[3, 3]] * 3


def test_a_wrong_shard_is_an_error_not_a_crash(fleet: WorkerFleet) -> None:
    group = fleet.group(0, 1, 2)
    step = AllGatherStep(group, 0, 1, 0, (2, 2, 2))
    targets = [fleet.number() for _ in range(3)]
    for index in range(3):
        fleet.run(index, one(step), [fleet.store(index, torch.ones(3 if index == 2 else 2)), targets[index]])
    failures = [fleet.fetch(index, target) for index, target in enumerate(targets)]
    assert all(isinstance(failure, Failure) and failure.cause == "ValueError" for failure in failures)


def test_many_failures_in_a_row(fleet: WorkerFleet) -> None:
    """Members fail in turn; each round ends with the right cause on all of them."""
    group = fleet.group(0, 1, 2)
    step = AllReduceStep(group, 0, 1, "sum")
    mul = fleet.table.get("aten::mm")
    assert mul is not None
    bad = CallStep(mul.index, (Operand(0), Operand(0)), (), (1,))
    for round_number in range(6):
        targets = [fleet.number() for _ in range(3)]
        for index in range(3):
            register = fleet.store(index, torch.ones(2))
            failing = round_number % 4 in (index, index + 1)
            steps = (bad, AllReduceStep(group, 1, 1, "sum")) if failing else (step,)
            fleet.run(index, one(*steps), [register, targets[index]])
        for index in range(3):
            value = fleet.fetch(index, targets[index])
            assert isinstance(value, Failure), (round_number, index)
    final = collective(fleet, step, [torch.ones(1)] * 3)
    assert [value.tolist() for value in final] == [[3]] * 3


def test_the_order_to_leave_ends_the_wait_for_a_peer_that_never_comes(fleet: WorkerFleet) -> None:
    group = fleet.group(0, 1)
    register, target = fleet.store(0, torch.ones(2)), fleet.number()
    fleet.run(0, one(AllReduceStep(group, 0, 1, "sum")), [register, target])
    request = fleet.request(0, target)
    fleet.order(0, DropGroup(group))
    failure = fleet.answer(0, request, within=5)
    fleet.order(1, DropGroup(group))
    assert isinstance(failure, Failure)
    assert failure.kind == FailureKind.WORKER_LOST


def test_signs_of_life_while_a_collective_waits(fleet: WorkerFleet) -> None:
    group = fleet.group(0, 1)
    registers = [fleet.store(index, torch.ones(2)) for index in range(2)]
    targets = [fleet.number() for _ in range(2)]
    fleet.run(0, one(AllReduceStep(group, 0, 1, "sum")), [registers[0], targets[0]])
    request = fleet.request(0, targets[0])
    heard = len(fleet.peers[0].heartbeats)
    fleet.until(lambda: len(fleet.peers[0].heartbeats) >= heard + 4, "heartbeats", within=3)
    fleet.run(1, one(AllReduceStep(group, 0, 1, "sum")), [registers[1], targets[1]])
    result = fleet.answer(0, request)
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [2, 2]


def test_a_peer_that_never_comes_costs_the_deadline(tmp_path: Path) -> None:
    with WorkerFleet(1, tmp_path, GT_COLLECTIVE_TIMEOUT="1") as fleet:
        group, store = fleet.number(), fleet.peers[0].hellos[-1].store
        fleet.order(0, FormGroup(group, (Member(0, store), Member(1, store))))
        register, target = fleet.store(0, torch.ones(2)), fleet.number()
        began = time.monotonic()
        fleet.run(0, one(AllReduceStep(group, 0, 1, "sum")), [register, target])
        failure = fleet.fetch(0, target)
        assert isinstance(failure, Failure)
        assert failure.kind == FailureKind.WORKER_LOST
        assert "GT_COLLECTIVE_TIMEOUT" in failure.message
        assert 0.9 < time.monotonic() - began < 4


def test_a_loss_in_one_group_does_not_break_another(fleet: WorkerFleet) -> None:
    """A value that was lost with some worker is a failed operand like any other."""
    lost, group = fleet.number(), fleet.group(0, 1)
    step = AllReduceStep(group, 0, 1, "sum")
    dissolved, targets = fleet.number(), [fleet.number(), fleet.number()]
    source = fleet.store(0, torch.ones(2))
    fleet.run(0, one(AllReduceStep(lost, 0, 1, "sum")), [source, dissolved])
    fleet.run(0, one(step), [dissolved, targets[0]])
    fleet.run(1, one(step), [fleet.store(1, torch.ones(2)), targets[1]])
    failures = [fleet.fetch(index, target) for index, target in enumerate(targets)]
    assert all(isinstance(failure, Failure) and failure.worker == 0 for failure in failures)
    after = [fleet.number(), fleet.number()]
    for index in range(2):
        fleet.run(index, one(step), [fleet.store(index, torch.ones(2)), after[index]])
    values = [fleet.fetch(index, target) for index, target in enumerate(after)]
    assert [value.tolist() for value in values if isinstance(value, torch.Tensor)] == [[2, 2]] * 2


def test_a_meeting_point_that_is_gone_breaks_the_group(fleet: WorkerFleet) -> None:
    """The first collective finds out within seconds, each further one at once."""
    group = fleet.number()
    fleet.order(0, FormGroup(group, (Member(1, "127.0.0.1:1"), Member(0, fleet.peers[0].hellos[-1].store))))
    register, first, second = fleet.store(0, torch.ones(2)), fleet.number(), fleet.number()
    fleet.run(0, one(AllReduceStep(group, 0, 1, "sum")), [register, first])
    failure = fleet.fetch(0, first)
    assert isinstance(failure, Failure)
    assert failure.kind == FailureKind.WORKER_LOST
    began = time.monotonic()
    fleet.run(0, one(AllReduceStep(group, 0, 1, "sum")), [register, second])
    again = fleet.fetch(0, second)
    assert isinstance(again, Failure)
    assert (again.kind, again.op, again.message) == (failure.kind, "test", failure.message)
    assert time.monotonic() - began < 2


def test_a_killed_peer_ends_the_wait_of_all_others(tmp_path: Path) -> None:
    with WorkerFleet(4, tmp_path) as fleet:
        group = fleet.group(3, 0, 1, 2)
        step = AllReduceStep(group, 0, 1, "sum")
        ready = collective(fleet, step, [torch.ones(2)] * 4)
        assert all(value.tolist() == [4, 4] for value in ready)
        requests = []
        for index in range(3):
            register, target = fleet.store(index, torch.ones(2)), fleet.number()
            fleet.run(index, one(step), [register, target])
            requests.append(fleet.request(index, target))
        heard = len(fleet.peers[2].heartbeats)
        fleet.until(lambda: len(fleet.peers[2].heartbeats) > heard, "the last one waits")
        fleet.peers[3].process.kill()
        killed = time.monotonic()
        for index, request in enumerate(requests):
            failure = fleet.answer(index, request, within=10)
            assert isinstance(failure, Failure)
            assert failure.kind == FailureKind.WORKER_LOST
            assert (failure.op, failure.worker, failure.operands) == ("test", index, ("float32(2)",))
        assert time.monotonic() - killed < 1.0
        smaller = fleet.group(0, 1, 2)
        for index in range(3):
            fleet.order(index, DropGroup(group))
        again = collective(fleet, AllReduceStep(smaller, 0, 1, "sum"), [torch.ones(2)] * 3)
        assert [value.tolist() for value in again] == [[3, 3]] * 3
