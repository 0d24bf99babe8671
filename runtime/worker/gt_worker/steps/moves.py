"""Steps on one worker that call no operator of the client's: slices, copies, zeros and views."""

from __future__ import annotations

import torch

from gt_protocol.programs import AliasStep, CopyStep, RestrideStep, SliceStep, ZerosStep
from gt_worker.steps.step import Frame, Locals, Step, tensor_at
from gt_worker.strides import dense_strides


class Slice(Step):
    """Copies a range of one axis."""

    def __init__(self, step: SliceStep) -> None:
        self._step = step
        self.reads = (step.source,)
        self.makes = (step.target,)

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        step = self._step
        part = tensor_at(local, step.source).narrow(step.axis, step.start, step.length)
        local[step.target] = dense_copy(part)


class Copy(Step):
    """Writes a tensor into another one's storage."""

    def __init__(self, step: CopyStep) -> None:
        self._step = step
        self.reads = (step.source, step.target)
        self.writes = (step.target,)

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        tensor_at(local, self._step.target).copy_(tensor_at(local, self._step.source))


class Zeros(Step):
    """Makes this worker's part of a partial sum: nothing."""

    def __init__(self, step: ZerosStep) -> None:
        self._step = step
        self.reads = (step.source,)
        self.makes = (step.target,)

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        source = tensor_at(local, self._step.source)
        strides = dense_strides(source.shape, source.stride())
        zeros = torch.empty_strided(source.shape, strides, dtype=source.dtype, device=source.device).zero_()
        local[self._step.target] = zeros


class Alias(Step):
    """Gives a tensor a second register."""

    def __init__(self, step: AliasStep) -> None:
        self._step = step
        self.reads = (step.source,)
        self.makes = (step.target,)

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        local[self._step.target] = tensor_at(local, self._step.source)


class Restride(Step):
    """Makes a view with explicit metadata."""

    def __init__(self, step: RestrideStep) -> None:
        self._step = step
        self.reads = (step.source,)
        self.makes = (step.target,)

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        step = self._step
        local[step.target] = tensor_at(local, step.source).as_strided(step.shape, step.strides, step.offset)


def dense_copy(source: torch.Tensor) -> torch.Tensor:
    """A copy without gaps that keeps the order of the axes in memory."""
    strides = dense_strides(source.shape, source.stride())
    return torch.empty_strided(source.shape, strides, dtype=source.dtype, device=source.device).copy_(source)
