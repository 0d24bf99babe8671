"""Runs plans on N workers within one process, with plain torch operators: the reference of what steps mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from gt_dispatcher.planner.layout import Layout
from gt_dispatcher.planner.plan import Plan
from gt_dispatcher.planner.shards import chunk_starts, dense_strides, local_shapes
from gt_protocol.arguments import (
    Argument,
    ComplexConst,
    Const,
    DeviceArg,
    DtypeArg,
    FloatConst,
    FloatSlot,
    LayoutArg,
    ListArg,
    MemoryFormatArg,
    Operand,
    ScalarTensor,
)
from gt_protocol.operators import OperatorTable
from gt_protocol.placements import Partial, Replicate, Shard
from gt_protocol.programs import (
    AliasStep,
    AllGatherStep,
    AllReduceStep,
    AllToAllStep,
    BroadcastStep,
    CallStep,
    CopyStep,
    ReduceScatterStep,
    RestrideStep,
    SliceStep,
    Step,
    ZerosStep,
)
from tests.support.planner import attention

# Tensors here are tiny: a second thread would only wait for the first.
torch.set_num_threads(1)

Collective = AllReduceStep | AllGatherStep | ReduceScatterStep | AllToAllStep | BroadcastStep

_OWN_KERNELS = {
    "aten::_scaled_dot_product_fused_attention_overrideable": attention.forward,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": attention.backward,
}


class Groups:
    """Numbers process groups, as the dispatcher's worker pool does."""

    def __init__(self) -> None:
        self.members: dict[int, tuple[int, ...]] = {}
        self._numbers: dict[tuple[int, ...], int] = {}

    def __call__(self, workers: tuple[int, ...]) -> int:
        assert len(workers) > 1, "a group of one"
        assert len(set(workers)) == len(workers)
        number = self._numbers.setdefault(workers, len(self._numbers) + 1)
        self.members[number] = workers
        return number


def dense_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A new tensor without gaps that keeps the order of the strides."""
    shape = tuple(tensor.shape)
    made = torch.empty_strided(shape, dense_strides(shape, tensor.stride()), dtype=tensor.dtype)
    return made.copy_(tensor)


def reduce(parts: Sequence[torch.Tensor], op: str) -> torch.Tensor:
    """Reduces tensors one after the other, so that every worker gets the same bits."""
    total = dense_copy(parts[0])
    for part in parts[1:]:
        assert part.shape == total.shape, f"{tuple(part.shape)} reduced with {tuple(total.shape)}"
        if op in ("sum", "avg"):
            total += part
        elif op == "product":
            total *= part
        else:
            total = (torch.maximum if op == "max" else torch.minimum)(total, part)
    return total / len(parts) if op == "avg" else total


class Simulator:
    """Register files of workers.

    Args:
        operators: The operator table.
        workers: Number of workers.
        seed: The session's random seed.
    """

    def __init__(self, operators: OperatorTable, workers: int, seed: int = 0) -> None:
        self.operators = operators
        self.groups = Groups()
        self.files: list[dict[int, torch.Tensor]] = [{} for _ in range(workers)]
        self.seed = seed
        self.traffic: list[tuple[str, int, str]] = []

    def run(self, plan: Plan, registers: Sequence[int], floats: Sequence[float] = (), ints: Sequence[int] = ()) -> None:
        """Runs a plan; `registers` are its inputs, then its outputs."""
        running: dict[int, Iterator[Collective]] = {}
        local: dict[int, dict[int, torch.Tensor]] = {}
        for worker, routine in plan.routines.items():
            assert len(registers) == routine.inputs + routine.outputs
            assert (len(floats), len(ints)) == (routine.floats, routine.ints), (routine, floats, ints)
            file = self.files[worker]
            local[worker] = {k: file[number] for k, number in enumerate(registers[: routine.inputs]) if number in file}
            running[worker] = self._steps(routine.steps, local[worker], floats, ints)
        self._drive(running, local)
        for worker, routine in plan.routines.items():
            for position in range(routine.inputs, routine.inputs + routine.outputs):
                if position in local[worker]:
                    self.files[worker][registers[position]] = local[worker][position]
        name = next((routine.name for routine in plan.routines.values()), "")
        self.traffic += [(move.kind, move.bytes, name) for move in plan.traffic]
        for layout, number in zip(plan.outputs, registers[len(registers) - len(plan.outputs) :], strict=True):
            self.check(layout, number)

    def check(self, layout: Layout, register: int) -> None:
        """Checks that each worker holds what a layout says."""
        wanted = local_shapes(layout.meta.shape, layout.mesh, layout.placements)
        for worker, shape in zip(layout.mesh.workers, wanted, strict=True):
            held = self.files[worker][register]
            assert tuple(held.shape) == shape, f"worker {worker} holds {tuple(held.shape)}, not {shape}"
            assert str(held.dtype) == f"torch.{layout.meta.dtype}", f"{held.dtype} is not {layout.meta.dtype}"

    def value(self, layout: Layout, register: int) -> torch.Tensor:
        """The global value of a tensor."""
        parts = [self.files[worker][register] for worker in layout.mesh.workers]
        (place,) = layout.placements
        if isinstance(place, Shard):
            return torch.cat(parts, place.axis)
        if isinstance(place, Partial):
            return reduce(parts, place.reduce_op)
        for part in parts[1:]:
            assert torch.equal(
                part.nan_to_num() if part.is_floating_point() else part,
                parts[0].nan_to_num() if part.is_floating_point() else parts[0],
            ), "replicas differ"
        return parts[0]

    def free(self, layout: Layout, register: int) -> None:
        """Forgets a register on each worker of a layout."""
        for worker in layout.mesh.workers:
            self.files[worker].pop(register, None)

    def _drive(self, running: dict[int, Iterator[Collective]], local: Mapping[int, dict[int, torch.Tensor]]) -> None:
        """Runs workers until each waits for a collective, then the collectives that all members wait for."""
        waiting: dict[int, Collective] = {}
        while running or waiting:
            for worker, steps in list(running.items()):
                step = next(steps, None) if worker not in waiting else waiting[worker]
                if step is None:
                    del running[worker]
                else:
                    waiting[worker] = step
            ready = [members for step in waiting.values() if self._all_wait(members := self._members(step), waiting)]
            if not ready:
                assert not waiting, f"deadlock: {waiting}"
                return
            members = ready[0]
            self._collective([(local[member], waiting.pop(member)) for member in members])

    def _members(self, step: Collective) -> tuple[int, ...]:
        return self.groups.members[step.group]

    @staticmethod
    def _all_wait(members: Sequence[int], waiting: Mapping[int, Collective]) -> bool:
        return all(member in waiting for member in members) and len({waiting[k].group for k in members}) == 1

    def _steps(
        self, steps: Sequence[Step], file: dict[int, torch.Tensor], floats: Sequence[float], ints: Sequence[int]
    ) -> Iterator[Collective]:
        """Runs steps; stops at each collective until it is done."""
        for step in steps:
            if isinstance(step, Collective):
                yield step
            elif isinstance(step, CallStep):
                self._call(step, file, floats, ints)
            elif isinstance(step, SliceStep):
                file[step.target] = dense_copy(file[step.source].narrow(step.axis, step.start, step.length))
            elif isinstance(step, CopyStep):
                file[step.target].copy_(file[step.source])
            elif isinstance(step, ZerosStep):
                file[step.target] = dense_copy(file[step.source]).zero_()
            elif isinstance(step, AliasStep):
                file[step.target] = file[step.source]
            else:
                assert isinstance(step, RestrideStep)
                file[step.target] = file[step.source].as_strided(step.shape, step.strides, step.offset)

    def _call(
        self, step: CallStep, file: dict[int, torch.Tensor], floats: Sequence[float], ints: Sequence[int]
    ) -> None:
        name = self.operators[step.op].name
        if step.random:
            torch.manual_seed(self.seed * 1_000_003 + ints[step.counter])
        args = [_value(argument, file, floats, ints) for argument in step.args]
        kwargs = {key: _value(argument, file, floats, ints) for key, argument in step.kwargs}
        own = _OWN_KERNELS.get(name)
        if own is not None:
            result = own(*args, **kwargs)
        else:
            base, _, overload = name.removeprefix("aten::").partition(".")
            result = getattr(getattr(torch.ops.aten, base), overload or "default")(*args, **kwargs)
        flat = [result] if isinstance(result, torch.Tensor) else list(result or ())
        if step.results and any(register >= 0 for register in step.results):
            assert len(flat) == len(step.results), f"{name} gave {len(flat)} results, not {len(step.results)}"
        for register, tensor in zip(step.results, flat, strict=False):
            if register >= 0:
                file[register] = tensor

    def _collective(self, members: Sequence[tuple[dict[int, torch.Tensor], Collective]]) -> None:
        kinds = {type(step) for _, step in members}
        assert len(kinds) == 1, f"members run different collectives: {kinds}"
        if kinds == {BroadcastStep}:
            self._broadcast(members)
            return
        parts = [file[step.source] for file, step in members]
        for (file, step), made in zip(members, _exchange(parts, [step for _, step in members]), strict=True):
            if isinstance(step, AllReduceStep) and step.source == step.target:
                _overwrite_storage(file[step.source], made)
            else:
                file[step.target] = made

    @staticmethod
    def _broadcast(members: Sequence[tuple[dict[int, torch.Tensor], Collective]]) -> None:
        steps = [step for _, step in members]
        root = steps[0].root
        file, step = members[root]
        source = file[step.source]
        assert tuple(source.shape) == step.shape
        assert [other.source for k, other in enumerate(steps) if k != root] == [-1] * (len(steps) - 1)
        for file, step in members:
            file[step.target] = torch.empty_strided(step.shape, step.strides, dtype=source.dtype).copy_(source)


def _exchange(parts: Sequence[torch.Tensor], steps: Sequence[Collective]) -> list[torch.Tensor]:
    step = steps[0]
    if isinstance(step, AllReduceStep):
        if step.source == step.target:
            parts = [_storage_of(part) for part in parts]
        total = reduce(parts, step.op)
        return [total.clone() for _ in parts]
    if isinstance(step, AllGatherStep):
        _check_sizes(parts, step.axis, step.sizes)
        return [dense_copy(_concatenate(parts, step.axis)) for _ in parts]
    if isinstance(step, ReduceScatterStep):
        total = reduce(parts, step.op)
        return _cut(total, step.axis, step.sizes)
    assert isinstance(step, AllToAllStep)
    _check_sizes(parts, step.gather_axis, step.gather_sizes)
    return _cut(_concatenate(parts, step.gather_axis), step.split_axis, step.split_sizes)


def _concatenate(parts: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
    """Concatenates, with the axes in memory in the order of the first part that says anything about it."""
    total = torch.cat(list(parts), axis)
    order = max(parts, key=lambda part: part.numel()).stride()
    made = torch.empty_strided(tuple(total.shape), dense_strides(tuple(total.shape), order), dtype=total.dtype)
    return made.copy_(total)


def _cut(total: torch.Tensor, axis: int, sizes: Sequence[int]) -> list[torch.Tensor]:
    assert sum(sizes) == total.shape[axis]
    starts = chunk_starts(total.shape[axis], len(sizes))
    return [dense_copy(total.narrow(axis, start, size)) for start, size in zip(starts, sizes, strict=True)]


def _check_sizes(parts: Sequence[torch.Tensor], axis: int, sizes: Sequence[int]) -> None:
    assert tuple(part.shape[axis] for part in parts) == tuple(sizes)


def _storage_of(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor's storage, as one axis."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0)


def _overwrite_storage(tensor: torch.Tensor, total: torch.Tensor) -> None:
    _storage_of(tensor).copy_(total)


def _value(
    argument: Argument, file: Mapping[int, torch.Tensor], floats: Sequence[float], ints: Sequence[int]
) -> object:
    match argument:
        case Operand(index=index):
            return file[index]
        case FloatSlot(index=index):
            return floats[index]
        case Const(value=value) | FloatConst(value=value):
            return value
        case DtypeArg(name=name) | MemoryFormatArg(name=name) | LayoutArg(name=name):
            return getattr(torch, name)
        case DeviceArg():
            return torch.device("cpu")
        case ComplexConst(real=real, imag=imag):
            return complex(real, imag)
        case ScalarTensor(dtype=dtype, index=index):
            kind = getattr(torch, dtype)
            return torch.tensor((floats if kind.is_floating_point else ints)[index], dtype=kind)
        case ListArg(items=items):
            return [_value(item, file, floats, ints) for item in items]
    raise AssertionError(f"unknown argument {argument}")


def placed(value: torch.Tensor, layout: Layout) -> list[torch.Tensor]:
    """What each worker of a layout's mesh holds of a value; parts of a sum are spread over all workers."""
    (place,) = layout.placements
    count = layout.mesh.size
    if isinstance(place, Replicate):
        return [dense_copy(value) for _ in range(count)]
    if isinstance(place, Shard):
        sizes = [shape[place.axis] for shape in local_shapes(value.shape, layout.mesh, layout.placements)]
        return _cut(value, place.axis, sizes)
    generator = torch.Generator().manual_seed(value.numel())
    return _parts(value, place.reduce_op, count, generator)


def _parts(value: torch.Tensor, op: str, count: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Different parts whose reduction is a value, exactly in whole numbers."""
    shape = tuple(value.shape)
    noise = [dense_copy(value).copy_(torch.randint(1, 5, shape, generator=generator)) for _ in range(count - 1)]
    if op == "sum":
        return [*(dense_copy(part) for part in noise), dense_copy(value - sum(noise))]
    if op == "avg":
        return [*(dense_copy(part) for part in noise), dense_copy(value * count - sum(noise))]
    if op in ("max", "min"):
        sign = -1 if op == "max" else 1
        others = [dense_copy(value + sign * part) for part in noise]
        return [*others, dense_copy(value)]
    raise AssertionError(op)
