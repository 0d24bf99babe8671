"""The device of a worker. This class alone knows what differs between CPU, CUDA and ROCm."""

from __future__ import annotations

import resource
import sys
import time
from datetime import timedelta
from typing import Any, Final, Protocol, cast

import torch
from torch._C._distributed_c10d import ProcessGroupGloo, ProcessGroupNCCL, Store, Work

from gt_worker.errors import CantStart

#: How often the end of an NCCL collective is looked for, in seconds.
NCCL_POLL: Final = 50e-6


class Backend(Protocol):
    """What Gloo and NCCL have in common, as far as it is used here."""

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Work:
        """Reduces tensors in place."""

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> Work:
        """Sends the root's tensors to all members."""

    def _allgather_base(self, received: torch.Tensor, sent: torch.Tensor) -> Work:
        """Gathers equal parts into one tensor."""

    def alltoall_base(
        self, received: torch.Tensor, sent: torch.Tensor, received_sizes: list[int], sent_sizes: list[int]
    ) -> Work:
        """Has each member send a part to each other one."""

    def abort(self) -> None:
        """Gives up what has not ended."""


class Device:
    """One device: its generator, its memory and its collectives.

    ROCm's devices go by the name `cuda` in PyTorch, too.

    Args:
        name: PyTorch's name, such as `cpu`, `cuda` or `cuda:1`.
        host: Address of this machine that peers reach.

    Raises:
        CantStart: PyTorch does not see such a device here.
    """

    def __init__(self, name: str, host: str) -> None:
        try:
            device = torch.device(name)
        except RuntimeError:
            raise CantStart(f"GT_DEVICE: {name!r} is no device; use cpu or cuda, or cuda:1 for a second one") from None
        if device.type not in ("cpu", "cuda"):
            raise CantStart(f"GT_DEVICE: {name!r} is not supported; use cpu or cuda")
        self._host = host
        self._is_cuda = device.type == "cuda"
        if self._is_cuda:
            index = device.index or 0
            if index >= torch.cuda.device_count():
                raise CantStart(
                    f"GT_DEVICE: {name!r} is not here (PyTorch sees {torch.cuda.device_count()} GPUs); "
                    "check the driver and the device request of the pod"
                )
            device = torch.device("cuda", index)
            torch.cuda.set_device(device)
            torch.cuda.synchronize(device)
            self._generator = torch.cuda.default_generators[index]
        else:
            self._generator = torch.default_generator
        self.torch = device

    def __str__(self) -> str:
        """PyTorch's name of it."""
        return str(self.torch)

    def seed(self, seed: int) -> None:
        """Seeds the generator that operators draw from."""
        self._generator.manual_seed(seed)

    def synchronise(self) -> None:
        """Waits until the device has done what it was given."""
        if self._is_cuda:
            torch.cuda.synchronize(self.torch)

    def memory_used(self) -> int:
        """Bytes of the device in use by this process; on a CPU the peak of its resident memory."""
        if self._is_cuda:
            return int(torch.cuda.memory_allocated(self.torch))
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def open_backend(self, store: Store, rank: int, size: int, timeout: float) -> Backend:
        """Connects to the other members of a group, which do the same. Blocks until all are there.

        Args:
            store: Meeting point of the members, used by this group alone.
            rank: Position of this worker in the group.
            size: Number of members.
            timeout: Seconds after which a connection or a collective fails.
        """
        limit = timedelta(seconds=timeout)
        if self._is_cuda:
            nccl = ProcessGroupNCCL.Options()
            nccl._timeout = limit
            return cast(Backend, ProcessGroupNCCL(store, rank, size, nccl))
        gloo_class: Any = ProcessGroupGloo
        gloo = gloo_class._Options()
        gloo._devices = [ProcessGroupGloo.create_device(hostname=self._host)]
        gloo._timeout = limit
        gloo._threads = 1
        return cast(Backend, ProcessGroupGloo(store, rank, size, gloo))

    def wait(self, work: Work, seconds: float) -> bool:
        """Waits for a collective.

        Returns:
            Whether it has ended.

        Raises:
            RuntimeError: It has failed.
        """
        if not self._is_cuda:
            try:
                work.wait(timedelta(seconds=seconds))
            except RuntimeError:
                if not work.is_completed():
                    return False
                # It failed, or it ended well just after the time was up: only the first raises again.
                work.wait()
            return True
        # NCCL's own timed wait tears the communicator down, and nothing tells of a collective's end: so look often.
        end = time.monotonic() + seconds
        while not work.is_completed():
            if time.monotonic() >= end:
                return False
            time.sleep(NCCL_POLL)
        work.wait()
        return True
