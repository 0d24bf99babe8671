"""What all steps have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch

from gt_protocol.failure import Failure
from gt_worker.devices import Device
from gt_worker.errors import Poisoned
from gt_worker.poison import Poison, Value

Locals: TypeAlias = list[Value | None]
"""Local registers; None is one that has not been made."""


class Frame:
    """What an instruction is run with, besides its registers. One object serves all instructions of a program.

    Attributes:
        floats: Floats of the program.
        float_base: Where those of the instruction begin.
        ints: Integers of the program.
        int_base: Where those of the instruction begin.
        seed: The session's random seed.
        device: The device.
        blame: Says which failure an exception of a step is.
    """

    __slots__ = ("blame", "device", "float_base", "floats", "int_base", "ints", "seed")

    def __init__(self, device: Device, blame: Callable[[Step, Locals, Exception], Failure]) -> None:
        self.device = device
        self.blame = blame
        self.floats: list[float] = []
        self.float_base = 0
        self.ints: list[int] = []
        self.int_base = 0
        self.seed = 0


class Step(ABC):
    """One step.

    Attributes:
        reads: Local registers that it depends on.
        makes: Local registers that it fills.
        writes: Local registers whose tensors it writes to.
    """

    reads: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()

    @abstractmethod
    def run(self, local: Locals, frame: Frame) -> None:
        """Runs it. Whatever it raises makes error values of what it makes and writes to."""


def tensor_at(local: Locals, position: int) -> torch.Tensor:
    """The tensor in a local register.

    Raises:
        Poisoned: It holds an error value.
        LookupError: It holds nothing.
    """
    value = local[position]
    if isinstance(value, Poison):
        raise Poisoned(value.failure)
    if value is None:
        raise LookupError(f"local register {position} is empty")
    return value
