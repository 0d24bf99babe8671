"""Reads that wait for workers' answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gt_protocol.messages import Value
from gt_protocol.wire import Frames


@dataclass(eq=False)
class PendingFetch:
    """A read whose parts are on their way.

    Attributes:
        session: Number of the session that asked.
        request: The client's number of the read.
        axis: Axis along which the parts are concatenated.
        workers: The workers asked, in the order of the parts.
        shapes: Shape of each part that came, by worker.
        frames: Bytes of each part that came, by worker.
        dtype: Element type, once a part came.
    """

    session: int
    request: int
    axis: int
    workers: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    frames: dict[int, Frames] = field(default_factory=dict)
    dtype: str = ""

    def add(self, worker: int, dtype: str, shape: tuple[int, ...], frames: Frames) -> bool:
        """Takes a part; tells whether it was the last."""
        self.dtype = dtype
        self.shapes[worker] = shape
        self.frames[worker] = frames
        return len(self.shapes) == len(self.workers)

    def value(self) -> tuple[Value, Frames]:
        """The answer to the client, and its raw frames."""
        shapes = tuple(self.shapes[worker] for worker in self.workers)
        counts = tuple(len(self.frames[worker]) for worker in self.workers)
        frames = [frame for worker in self.workers for frame in self.frames[worker]]
        return Value(self.request, self.dtype, self.axis, shapes, counts), frames


class FetchTable:
    """All reads that wait."""

    def __init__(self) -> None:
        self._pending: dict[int, PendingFetch] = {}
        self._next = 1

    def __len__(self) -> int:
        """Number of reads that wait."""
        return len(self._pending)

    def add(self, fetch: PendingFetch) -> int:
        """Takes a read; returns the number under which workers answer."""
        number = self._next
        self._next += 1
        self._pending[number] = fetch
        return number

    def get(self, number: int) -> PendingFetch | None:
        """A read, or None if it has failed already or its session is gone."""
        return self._pending.get(number)

    def pop(self, number: int) -> None:
        """Forgets a read."""
        self._pending.pop(number, None)

    def of_worker(self, worker: int) -> Iterator[tuple[int, PendingFetch]]:
        """The reads that still wait for a worker."""
        for number, fetch in list(self._pending.items()):
            if worker in fetch.workers and worker not in fetch.shapes:
                yield number, fetch

    def drop_session(self, session: int) -> None:
        """Forgets the reads of a session."""
        self._pending = {number: fetch for number, fetch in self._pending.items() if fetch.session != session}
