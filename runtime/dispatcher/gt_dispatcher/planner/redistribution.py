"""Moves values between meshes and placements, by explicit steps."""

from __future__ import annotations

from collections.abc import Sequence

from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.errors import PlanError, UnsupportedMesh
from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.shards import byte_size, chunk_sizes, chunk_starts, dense_strides
from gt_protocol.arguments import Argument, Const, DeviceArg, DtypeArg, ListArg
from gt_protocol.blocks import TensorMeta
from gt_protocol.placements import Partial, Placement, Replicate, Shard
from gt_protocol.programs import (
    AliasStep,
    AllGatherStep,
    AllReduceStep,
    AllToAllStep,
    BroadcastStep,
    CopyStep,
    ReduceScatterStep,
    SliceStep,
    ZerosStep,
)

#: Reductions of which equal parts are the value itself.
IDEMPOTENT = frozenset({"avg", "max", "min"})


def check_mesh(mesh: Mesh) -> None:
    """Refuses a mesh that values can't be moved on.

    Raises:
        UnsupportedMesh: It has more than one dimension.
    """
    if len(mesh.shape) != 1:
        raise UnsupportedMesh(
            f"a mesh of shape {tuple(mesh.shape)}: only meshes of one dimension are supported; "
            f"name its {mesh.size} workers without `shape`"
        )


def redistribute(draft: Draft, value: Value, mesh: Mesh, placements: Sequence[Placement]) -> Value:
    """A value on a mesh with placements; the value itself if it is there already.

    The result may share memory with the value where nothing had to move, so it must not be written to unless the
    caller knows better.

    Raises:
        PlanError: There is no way.
    """
    check_mesh(mesh)
    check_mesh(value.mesh)
    target = Replicate() if mesh.size == 1 else placements[0]
    if value.mesh != mesh:
        value = _move(draft, _change(draft, value, Replicate()), mesh)
    return _change(draft, value, target)


def replicate(draft: Draft, value: Value, mesh: Mesh) -> Value:
    """The whole value on each worker of a mesh."""
    return redistribute(draft, value, mesh, (Replicate(),) * len(mesh.shape))


def with_strides(draft: Draft, value: Value, meta: TensorMeta) -> Value:
    """A copy of what each worker holds of a whole or partial value, with the very strides of some metadata."""
    kwargs: tuple[tuple[str, Argument], ...] = (("device", DeviceArg()), ("dtype", DtypeArg(meta.dtype)))
    strides = dense_strides(meta.shape, meta.strides)
    sizes, steps = (ListArg(tuple(Const(number) for number in numbers)) for numbers in (meta.shape, strides))
    register = draft.call(value.mesh, "aten::empty_strided", (sizes, steps), kwargs)
    draft.add_everywhere(value.mesh, CopyStep(value.register, register))
    return Value(register, value.mesh, value.placements, meta)


def _change(draft: Draft, value: Value, target: Placement) -> Value:
    """The value with another placement on the same mesh of one dimension."""
    source = value.placements[0]
    if source == target:
        return value
    if isinstance(source, Partial):
        if isinstance(target, Replicate):
            return _all_reduce(draft, value, source)
        if isinstance(target, Shard):
            return _reduce_scatter(draft, value, source, target)
    elif isinstance(source, Shard):
        if isinstance(target, Replicate):
            return _all_gather(draft, value, source)
        if isinstance(target, Shard):
            return _all_to_all(draft, value, source, target)
    elif isinstance(target, Shard):
        return _slice(draft, value, target)
    else:
        assert isinstance(target, Partial)
        return _make_partial(draft, value, target)
    return _change(draft, _change(draft, value, Replicate()), target)


def _result(draft: Draft, value: Value, target: Placement) -> Value:
    return Value(draft.register(), value.mesh, (target,), value.meta)


def _all_reduce(draft: Draft, value: Value, source: Partial) -> Value:
    result = _result(draft, value, Replicate())
    workers = value.mesh.workers
    step = AllReduceStep(draft.context.groups(workers), value.register, result.register, source.reduce_op)
    draft.add_everywhere(value.mesh, step)
    draft.moved("all_reduce", byte_size(value.meta), workers)
    return result


def _reduce_scatter(draft: Draft, value: Value, source: Partial, target: Shard) -> Value:
    result = _result(draft, value, target)
    workers = value.mesh.workers
    sizes = chunk_sizes(value.meta.shape[target.axis], len(workers))
    group = draft.context.groups(workers)
    step = ReduceScatterStep(group, value.register, result.register, target.axis, sizes, source.reduce_op)
    draft.add_everywhere(value.mesh, step)
    draft.moved("reduce_scatter", byte_size(value.meta), workers)
    return result


def _all_gather(draft: Draft, value: Value, source: Shard) -> Value:
    result = _result(draft, value, Replicate())
    workers = value.mesh.workers
    sizes = chunk_sizes(value.meta.shape[source.axis], len(workers))
    group, strides = draft.context.groups(workers), value.meta.strides
    step = AllGatherStep(group, value.register, result.register, source.axis, sizes, strides)
    draft.add_everywhere(value.mesh, step)
    draft.moved("all_gather", byte_size(value.meta), workers)
    return result


def _all_to_all(draft: Draft, value: Value, source: Shard, target: Shard) -> Value:
    result = _result(draft, value, target)
    workers, shape = value.mesh.workers, value.meta.shape
    step = AllToAllStep(
        group=draft.context.groups(workers),
        source=value.register,
        target=result.register,
        gather_axis=source.axis,
        gather_sizes=chunk_sizes(shape[source.axis], len(workers)),
        split_axis=target.axis,
        split_sizes=chunk_sizes(shape[target.axis], len(workers)),
    )
    draft.add_everywhere(value.mesh, step)
    draft.moved("all_to_all", -(-byte_size(value.meta) // len(workers)), workers)
    return result


def _slice(draft: Draft, value: Value, target: Shard) -> Value:
    result = _result(draft, value, target)
    length, parts = value.meta.shape[target.axis], value.mesh.size
    ranges = zip(value.mesh.workers, chunk_starts(length, parts), chunk_sizes(length, parts), strict=True)
    for worker, start, size in ranges:
        draft.add(worker, SliceStep(value.register, result.register, target.axis, start, size))
    return result


def _make_partial(draft: Draft, value: Value, target: Partial) -> Value:
    """A whole value as parts: for a sum, the first worker has all of it and the others have zeros."""
    result = _result(draft, value, target)
    if target.reduce_op != "sum" and target.reduce_op not in IDEMPOTENT:
        raise PlanError(f"a whole value can't become a partial {target.reduce_op}")
    first, *others = value.mesh.workers
    draft.add(first, AliasStep(value.register, result.register))
    rest = AliasStep if target.reduce_op in IDEMPOTENT else ZerosStep
    for worker in others:
        draft.add(worker, rest(value.register, result.register))
    return result


def _move(draft: Draft, value: Value, mesh: Mesh) -> Value:
    """A whole value on another mesh: nothing moves to workers that have it."""
    lacking = tuple(worker for worker in mesh.workers if worker not in value.mesh.workers)
    replicated = (Replicate(),) * len(mesh.shape)
    if not lacking:
        return Value(value.register, mesh, replicated, value.meta)
    result = Value(draft.register(), mesh, replicated, value.meta)
    root = value.mesh.workers[0]
    group = (root, *lacking)
    shape, strides = value.meta.shape, dense_strides(value.meta.shape, value.meta.strides)
    number = draft.context.groups(group)
    # The sender gets a register of its own as well: it may have no part in the target mesh.
    for worker in group:
        source = value.register if worker == root else -1
        draft.add(worker, BroadcastStep(number, 0, source, result.register, shape, strides, value.meta.dtype))
    for worker in mesh.workers:
        if worker not in group:
            draft.add(worker, AliasStep(value.register, result.register))
    draft.moved("broadcast", byte_size(value.meta), group)
    return result
