"""Plans that belong to no instruction: placing, reducing and viewing storages, and parts of uploads and fetches."""

from __future__ import annotations

from collections.abc import Mapping

from gt_dispatcher.planner.draft import Draft, PlanContext, Value
from gt_dispatcher.planner.errors import PlanError
from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.plan import Plan, Region
from gt_dispatcher.planner.redistribution import check_mesh, redistribute, with_strides
from gt_dispatcher.planner.shards import byte_size, chunk_sizes, chunk_starts, dense_strides, is_dense
from gt_protocol.arguments import Operand
from gt_protocol.blocks import TensorMeta
from gt_protocol.placements import Partial, Placement, Replicate, Shard
from gt_protocol.programs import AllReduceStep, RestrideStep

#: (axis, start, length) of what a worker keeps of an upload, or None for all of it.
Cut = tuple[int, int, int] | None


def plan_relayout(context: PlanContext, source: Layout, mesh: Mesh, placements: tuple[Placement, ...]) -> Plan:
    """A copy of a tensor with another mesh or placements: one input, one output, a storage of its own.

    Raises:
        PlanError: There is no way.
    """
    draft = Draft(context, "relayout", (source,), 1)
    given = draft.inputs[0]
    value = redistribute(draft, given, mesh, placements)
    if value.register == given.register or _shares_memory(given, value):
        value = Value(draft.call(mesh, "aten::clone", (Operand(value.register),)), mesh, value.placements, value.meta)
    meta = source.meta
    if not is_dense(meta):
        meta = TensorMeta(meta.shape, dense_strides(meta.shape, meta.strides), 0, meta.dtype)
    if value.whole and not (given.whole or given.partial) and len(meta.shape) > 1:
        # Parts with a single index along an axis do not tell where that axis lies in memory, and so neither does what
        # is gathered from them; but views of the storage may be made anew by its strides.
        value = with_strides(draft, value, meta)
    return draft.finish([Value(value.register, value.mesh, value.placements, meta)])


def _shares_memory(given: Value, value: Value) -> bool:
    """Whether a worker may have got the value under a second name only."""
    moved_whole = value.mesh != given.mesh and value.whole and given.whole
    return value.partial or (moved_whole and not set(value.mesh.workers).isdisjoint(given.mesh.workers))


def plan_reduce_in_place(context: PlanContext, layout: Layout) -> Plan:
    """Makes the partial sums of a whole storage whole, in place: one input, no output.

    Raises:
        PlanError: The storage can't be reduced.
    """
    check_mesh(layout.mesh)
    place = layout.placements[0]
    if not isinstance(place, Partial):
        raise PlanError("a storage that is not partial needs no reduction")
    draft = Draft(context, "reduce", (layout,), 0)
    workers = layout.mesh.workers
    draft.add_everywhere(layout.mesh, AllReduceStep(context.groups(workers), 0, 0, place.reduce_op))
    draft.moved("all_reduce", byte_size(layout.meta), workers)
    return draft.finish([])


def plan_restride(context: PlanContext, root: Layout, meta: TensorMeta) -> Plan:
    """A view of a storage by explicit metadata; its root lies whole on each worker of its mesh.

    Raises:
        PlanError: The root is split, or has gaps that its copies on the workers have not.
    """
    if not root.whole:
        raise PlanError("a view by explicit strides needs its whole storage on each worker")
    if not is_dense(root.meta):
        raise PlanError(f"a storage whose owner has strides {root.meta.strides} and gaps can't be replicated; clone it")
    draft = Draft(context, "restride", (root,), 1)
    register = draft.register()
    step = RestrideStep(0, register, meta.shape, meta.strides, meta.offset - root.meta.offset)
    draft.add_everywhere(root.mesh, step)
    return draft.finish([Value(register, root.mesh, root.placements, meta)])


def place_upload(
    layouts: LayoutTable, meta: TensorMeta, region: Region | None, home: Mesh
) -> tuple[Layout, Mapping[int, Cut]]:
    """Where an upload goes, and what each worker keeps of it.

    Raises:
        ShardingError: The region's placements do not fit the tensor.
    """
    mesh = region.mesh if region is not None else home
    check_mesh(mesh)
    # A lone number has no axis to be cut along: like the factories of a region, it is copied to each worker.
    placements = region.placements_for(meta.shape) if region is not None and meta.shape else (Replicate(),)
    layout = layouts.get(mesh, placements, meta)
    place = layout.placements[0]
    if not isinstance(place, Shard):
        return layout, dict.fromkeys(mesh.workers)
    length = meta.shape[place.axis]
    ranges = zip(chunk_starts(length, mesh.size), chunk_sizes(length, mesh.size), strict=True)
    return layout, {worker: (place.axis, *part) for worker, part in zip(mesh.workers, ranges, strict=True)}


def fetch_parts(layout: Layout) -> tuple[int, tuple[int, ...]]:
    """Axis and workers whose parts, concatenated, are a tensor's value; one worker if each has all of it.

    Raises:
        PlanError: The parts are partial results.
    """
    check_mesh(layout.mesh)
    place = layout.placements[0]
    if isinstance(place, Partial):
        raise PlanError("a partial result must be reduced before it is read")
    if isinstance(place, Shard):
        return place.axis, layout.mesh.workers
    return 0, layout.mesh.workers[:1]
