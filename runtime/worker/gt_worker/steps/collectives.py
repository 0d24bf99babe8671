"""Steps that a group of workers runs together.

Each one packs what it sends into a flat buffer of bytes or numbers, so that any element type, order of axes, uneven and
empty shards travel alike. A member that can't pack (its operand has failed, or there is no memory) still has its turn
in the group's order: `gt_worker.group` says how the others learn of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import accumulate
from typing import TypeAlias

import torch
from torch._C._distributed_c10d import AllreduceOptions, BroadcastOptions, Work

from gt_protocol.programs import AllGatherStep, AllReduceStep, AllToAllStep, BroadcastStep, ReduceScatterStep
from gt_worker.devices import Backend
from gt_worker.errors import Poisoned
from gt_worker.group import Group
from gt_worker.groups import Groups
from gt_worker.reductions import Reduction, fold
from gt_worker.steps.moves import dense_copy
from gt_worker.steps.step import Frame, Locals, Step, tensor_at
from gt_worker.strides import count, dense_strides, is_dense
from gt_worker.values import dtype_of

#: Begins a collective.
Begin: TypeAlias = Callable[[Backend], Work]
#: Makes the result, once the collective has ended.
Finish: TypeAlias = Callable[[], torch.Tensor]


class Collective(Step):
    """A step in which all members of a group have a part.

    Args:
        groups: The groups of this worker.
        group: Number of the group.
        source: Local register of the operand, or -1.
        target: Local register of the result.
    """

    def __init__(self, groups: Groups, group: int, source: int, target: int) -> None:
        self._groups = groups
        self._number = group
        self._source = source
        self._target = target
        self.reads = (source,) if source >= 0 else ()
        self.makes = (target,)

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        group = self._groups.get(self._number)
        try:
            begin, finish = self._prepare(local, group, frame)
        except Exception as error:
            failure = frame.blame(self, local, error)
            group.refuse(failure)
            raise Poisoned(failure) from None
        group.call(begin)
        local[self._target] = finish()

    @abstractmethod
    def _prepare(self, local: Locals, group: Group, frame: Frame) -> tuple[Begin, Finish]:
        """Packs what this member sends, and makes room for what it receives."""


class AllReduce(Collective):
    """Reduces over a group; in place it reduces the whole storage, and so every view of it."""

    def __init__(self, groups: Groups, step: AllReduceStep) -> None:
        super().__init__(groups, step.group, step.source, step.target)
        self._op = step.op
        self._in_place = step.source == step.target
        if self._in_place:
            self.makes, self.writes = (), (step.source,)

    def _prepare(self, local: Locals, group: Group, frame: Frame) -> tuple[Begin, Finish]:
        source = tensor_at(local, self._source)
        if self._in_place:
            result = source
            length = source.untyped_storage().nbytes() // source.element_size()
        else:
            result = dense_copy(source)
            length = source.numel()
        reduction = Reduction(result.as_strided((length,), (1,), 0), self._op, group.size)
        options = AllreduceOptions()
        options.reduceOp = reduction.operation

        def finish() -> torch.Tensor:
            reduction.finish()
            return result

        return lambda backend: backend.allreduce([reduction.buffer], options), finish


class AllGather(Collective):
    """Concatenates the shards of a group."""

    def __init__(self, groups: Groups, step: AllGatherStep) -> None:
        super().__init__(groups, step.group, step.source, step.target)
        self._axis = step.axis
        self._sizes = step.sizes
        self._strides = step.strides

    def _prepare(self, local: Locals, group: Group, frame: Frame) -> tuple[Begin, Finish]:
        source = tensor_at(local, self._source)
        axis, sizes = self._axis, self._sizes
        _expect(source, axis, sizes[group.rank])
        turned = source.movedim(axis, 0)
        widest = max(1, max(sizes) * count(turned.shape[1:]))
        mine = _flat(turned)
        if mine.numel() != widest:
            mine = torch.cat((mine, mine.new_empty(widest - mine.numel())))
        everything = mine.new_empty(group.size * widest)

        def finish() -> torch.Tensor:
            shape = (*source.shape[:axis], sum(sizes), *source.shape[axis + 1 :])
            result = _empty_like(source, shape, self._strides)
            for rank, (end, size) in enumerate(zip(accumulate(sizes), sizes, strict=True)):
                part = everything.narrow(0, rank * widest, size * count(turned.shape[1:]))
                result.narrow(axis, end - size, size).copy_(part.view(size, *turned.shape[1:]).movedim(0, axis))
            return result

        return lambda backend: backend._allgather_base(_bytes(everything), _bytes(mine)), finish


class ReduceScatter(Collective):
    """Reduces over a group and keeps this member's shard.

    Each member receives all parts of its own shard and adds them up in the order of the members, for any element type.
    """

    def __init__(self, groups: Groups, step: ReduceScatterStep) -> None:
        super().__init__(groups, step.group, step.source, step.target)
        self._axis = step.axis
        self._sizes = step.sizes
        self._op = step.op

    def _prepare(self, local: Locals, group: Group, frame: Frame) -> tuple[Begin, Finish]:
        source = tensor_at(local, self._source)
        axis, sizes = self._axis, self._sizes
        _expect(source, axis, sum(sizes))
        fold(source.new_empty((1, 1)), self._op)
        parts = source.split_with_sizes(sizes, axis)
        shape = parts[group.rank].shape
        exchange = _Exchange(list(parts), [count(shape)] * group.size)

        def finish() -> torch.Tensor:
            received = torch.stack(exchange.received())
            return _empty_like(source, shape).copy_(fold(received, self._op).view(shape))

        return exchange.begin, finish


class AllToAll(Collective):
    """Changes the axis that a tensor is sharded along."""

    def __init__(self, groups: Groups, step: AllToAllStep) -> None:
        super().__init__(groups, step.group, step.source, step.target)
        self._step = step

    def _prepare(self, local: Locals, group: Group, frame: Frame) -> tuple[Begin, Finish]:
        step = self._step
        source = tensor_at(local, self._source)
        _expect(source, step.gather_axis, step.gather_sizes[group.rank])
        _expect(source, step.split_axis, sum(step.split_sizes))
        parts = source.split_with_sizes(step.split_sizes, step.split_axis)
        shapes = [_with_size(parts[group.rank].shape, step.gather_axis, size) for size in step.gather_sizes]
        exchange = _Exchange(list(parts), [count(shape) for shape in shapes])

        def finish() -> torch.Tensor:
            whole = _with_size(shapes[0], step.gather_axis, sum(step.gather_sizes))
            result = _empty_like(source, whole)
            places = result.split_with_sizes(step.gather_sizes, step.gather_axis)
            for place, shape, part in zip(places, shapes, exchange.received(), strict=True):
                place.copy_(part.view(shape))
            return result

        return exchange.begin, finish


class Broadcast(Collective):
    """Sends one member's tensor to all. The sender, too, gets a copy that shares nothing with its own."""

    def __init__(self, groups: Groups, step: BroadcastStep) -> None:
        super().__init__(groups, step.group, step.source, step.target)
        self._step = step

    def _prepare(self, local: Locals, group: Group, frame: Frame) -> tuple[Begin, Finish]:
        step = self._step
        shape, dtype = step.shape, dtype_of(step.dtype)
        dense = torch.empty_strided(shape, dense_strides(shape, step.strides), dtype=dtype, device=frame.device.torch)
        if group.rank == step.root:
            source = tensor_at(local, step.source)
            if source.shape != shape or source.dtype != dtype:
                raise ValueError(f"a tensor of {source.dtype}{tuple(source.shape)} where {step.dtype}{shape} is due")
            dense.copy_(source)
        flat = dense.as_strided((dense.numel(),), (1,), 0) if dense.numel() else dense.new_zeros(1)
        options = BroadcastOptions()
        options.rootRank = step.root

        def finish() -> torch.Tensor:
            return dense if is_dense(shape, step.strides) else _with_strides(dense, step.strides)

        return lambda backend: backend.broadcast([_bytes(flat)], options), finish


class _Exchange:
    """Each member sends one part to each other one.

    Args:
        parts: What goes to each member.
        counts: Elements that come from each member.
    """

    def __init__(self, parts: list[torch.Tensor], counts: list[int]) -> None:
        # A part without elements travels as one, so that a member without a value is noticed by all.
        padded = [_flat(part) if part.numel() else part.new_zeros(1) for part in parts]
        self._counts = counts
        self._room = [max(1, size) for size in counts]
        self._sent = torch.cat(padded)
        self._received = self._sent.new_empty(sum(self._room))
        self._sent_bytes = [part.numel() * part.element_size() for part in padded]

    def begin(self, backend: Backend) -> Work:
        """Begins it."""
        room = [size * self._received.element_size() for size in self._room]
        return backend.alltoall_base(_bytes(self._received), _bytes(self._sent), room, self._sent_bytes)

    def received(self) -> list[torch.Tensor]:
        """What came from each member, flat."""
        return [
            part[:size] for part, size in zip(self._received.split_with_sizes(self._room), self._counts, strict=True)
        ]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in row-major order."""
    return tensor.resolve_conj().resolve_neg().contiguous().view(-1)


def _bytes(flat: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes."""
    return flat.view(torch.uint8)


def _empty_like(source: torch.Tensor, shape: tuple[int, ...] | torch.Size, order: tuple[int, ...] = ()) -> torch.Tensor:
    """Room for a tensor of another shape, with the order of axes of some strides, or else of the source."""
    strides = dense_strides(shape, order or source.stride())
    return torch.empty_strided(shape, strides, dtype=source.dtype, device=source.device)


def _with_size(shape: tuple[int, ...] | torch.Size, axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _with_strides(dense: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy with strides that leave gaps, or that share places along expanded axes."""
    shape = tuple(1 if stride == 0 else size for size, stride in zip(dense.shape, strides, strict=True))
    once = dense.as_strided(shape, dense.stride(), 0)
    return torch.empty_strided(shape, strides, dtype=dense.dtype, device=dense.device).copy_(once).expand(dense.shape)


def _expect(source: torch.Tensor, axis: int, size: int) -> None:
    """Checks a shard before its bytes meet those of others, where a wrong size could end the process.

    Raises:
        ValueError: It has another size.
    """
    if source.shape[axis] != size:
        raise ValueError(f"a shard of shape {tuple(source.shape)}, whose axis {axis} should have {size}")
