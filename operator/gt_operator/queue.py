"""What is to be reconciled, when, and by whom.

A key is never in two hands at once; what is added while it is in a hand comes again afterwards; added twice, it comes
once. So the queue is never longer than the number of objects.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 0.25
LONGEST_DELAY = 15.0
JITTER = 0.3


def backoff(failures: int, jitter: float) -> float:
    """Seconds to wait after a number of failures in a row.

    Args:
        failures: Failures in a row, from 1.
        jitter: Between 0 and 1; spreads those who failed together.
    """
    delay = FIRST_DELAY * 2.0 ** min(failures - 1, 16)
    return min(delay * (1 - JITTER + 2 * JITTER * jitter), LONGEST_DELAY)


class Schedule(Generic[K]):
    """The queue's rules, without a clock: times are given, and never go backwards."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}  # In order of arrival.
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._timers: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._counter = 0

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Asks for a key to be handled as soon as possible."""
        if key in self._busy:
            self._again.add(key)
        else:
            self._ready.setdefault(key)

    def add_at(self, key: K, when: float) -> None:
        """Asks for a key to be handled at a time; the earliest such wish counts."""
        if when >= self._due.get(key, float("inf")):
            return
        self._due[key] = when
        self._counter += 1
        heapq.heappush(self._timers, (when, self._counter, key))

    def failed(self, key: K) -> int:
        """Counts a failure of a key; returns how many there were in a row."""
        self._failures[key] = self._failures.get(key, 0) + 1
        return self._failures[key]

    def succeeded(self, key: K) -> None:
        """Forgets the failures of a key."""
        self._failures.pop(key, None)

    def next(self, now: float) -> K | None:
        """Hands out a key, or None if there is nothing to do yet."""
        while self._timers and self._timers[0][0] <= now:
            when, _, due = heapq.heappop(self._timers)
            if self._due.get(due) == when:
                del self._due[due]
                self.add(due)
        key = next(iter(self._ready), None)
        if key is not None:
            del self._ready[key]
            self._busy.add(key)
        return key

    def done(self, key: K) -> None:
        """Takes a key back that `next` handed out."""
        self._busy.remove(key)
        if key in self._again:
            self._again.remove(key)
            self._ready.setdefault(key)

    def next_time(self) -> float | None:
        """When the next delayed key is due; None if there is none."""
        return self._timers[0][0] if self._timers else None


class WorkQueue(Generic[K]):
    """A schedule in real time, for tasks of one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._schedule: Schedule[K] = Schedule()
        self._clock = clock
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._schedule)

    def add(self, key: K) -> None:
        """Asks for a key to be handled as soon as possible."""
        self._schedule.add(key)
        self._changed.set()

    def add_after(self, key: K, delay: float) -> None:
        """Asks for a key to be handled in `delay` seconds."""
        self._schedule.add_at(key, self._clock() + delay)
        self._changed.set()

    def retry(self, key: K) -> float:
        """Asks for a key that failed to be handled again; returns the delay in seconds."""
        # Jitter needs no secrecy.
        delay = backoff(self._schedule.failed(key), random.random())  # noqa: S311
        self.add_after(key, delay)
        return delay

    def succeeded(self, key: K) -> None:
        """Forgets the failures of a key."""
        self._schedule.succeeded(key)

    def done(self, key: K) -> None:
        """Takes a key back."""
        self._schedule.done(key)
        self._changed.set()

    async def get(self) -> K:
        """Waits for a key. It must be given back by `done`."""
        while True:
            key = self._schedule.next(self._clock())
            if key is not None:
                return key
            self._changed.clear()
            due = self._schedule.next_time()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                    await self._changed.wait()
            except TimeoutError:
                continue  # A delayed key is due.
