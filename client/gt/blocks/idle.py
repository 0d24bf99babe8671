"""Sends what lies around when the program emits nothing for a while."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from gt.blocks.handles import frees
from gt.errors import ClientError

if TYPE_CHECKING:
    from gt.blocks.block_builder import BlockBuilder

#: A block with instructions is sent after a pause of this length, in seconds.
INSTRUCTION_GAP: Final = 0.003
#: Frees alone are sent after a pause of this length: mostly the next step takes them along.
FREE_GAP: Final = 0.1


class IdleFlusher:
    """A thread that sleeps while nothing is pending.

    Attributes:
        gap: Pause after which a block with instructions is sent, in seconds.

    The first instruction of a block wakes it, and so do finalizers, through a queue whose `put` takes no lock that a
    finalizer could meet again.
    """

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder
        self.gap = INSTRUCTION_GAP
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread, unless it runs; the builder's lock is held."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gt-idle", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            frees.parked = True
            if not self._builder.pending and not frees.dropped and not frees.late:
                frees.wake.get()
            frees.parked = False
            if not self._watch():
                frees.parked = True
                frees.wake.get()

    def _watch(self) -> bool:
        """Flushes once nothing has come for long enough; tells whether that went well."""
        builder = self._builder
        while True:
            seen, began = builder.emitted, time.monotonic()
            while builder.emitted == seen:
                gap = self.gap if builder.pending else FREE_GAP
                left = began + gap - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, FREE_GAP))
            if builder.emitted == seen:
                try:
                    builder.flush_if_idle(seen)
                except ClientError:
                    # What can't be sent stays, and the program meets the error at its next read.
                    return False
                return True
