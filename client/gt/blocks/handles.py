"""Handles: what keeps a tensor of the fleet alive, and the lists that their ends are noted in."""

from __future__ import annotations

import gc
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gt.metadata import Meta

#: Ids of uploads are below this, those of outputs from here on: each kind counts on its own.
FIRST_OUTPUT: Final = 1 << 40


class Frees:
    """Tensors that the program has dropped, until a block takes them along.

    A drop by reference count happens at the same point of every step, and so can be part of a block's body. One by the
    garbage collector, or in a thread other than the one that emits, comes at a random point: it goes to `late`.

    Attributes:
        dropped: Ids, in the order of the drops.
        late: Ids whose point within the program means nothing.
        collecting: The garbage collector is at work.
        emitter: The thread that emitted last.
        parked: The idle thread sleeps until something is put into `wake`.
        wake: Wakes the idle thread; putting is allowed in finalizers.
    """

    __slots__ = ("collecting", "dropped", "emitter", "late", "parked", "wake")

    def __init__(self) -> None:
        self.dropped: list[int] = []
        self.late: list[int] = []
        self.collecting = False
        self.emitter = threading.get_ident()
        self.parked = False
        self.wake: SimpleQueue[None] = SimpleQueue()


frees: Final = Frees()


def _watch_collector(phase: str, _: dict[str, int]) -> None:
    frees.collecting = phase == "start"


gc.callbacks.append(_watch_collector)


class Handle:
    """One tensor of the fleet. Tensors that are no-op views of each other share it.

    Attributes:
        id: The tensor's id; 0 while no instruction has made it.
        meta: Its metadata.
    """

    __slots__ = ("id", "meta")

    def __init__(self, meta: Meta) -> None:
        self.id = 0
        self.meta = meta

    def __del__(self, _frees: Frees = frees, _ident: object = threading.get_ident) -> None:
        # Takes no lock and sends nothing, since the garbage collector may call it anywhere. What it needs is bound as
        # defaults, which outlive the module's globals at the interpreter's end.
        if not self.id:
            return
        if _frees.collecting or _frees.emitter != _ident():  # type: ignore[operator]  # typed loosely to stay a default
            _frees.late.append(self.id)
        else:
            _frees.dropped.append(self.id)
        if _frees.parked:
            _frees.parked = False
            _frees.wake.put(None)
