"""The queue's rules, in virtual time."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gt_operator.queue import FIRST_DELAY, LONGEST_DELAY, Schedule, WorkQueue, backoff

KEYS = st.sampled_from("abcd")


class ScheduleModel(RuleBasedStateMachine):
    """Compares the schedule with what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[str] = Schedule()
        self.now = 0.0
        self.owed: set[str] = set()
        self.timers: dict[str, float] = {}
        self.held: set[str] = set()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.schedule.add(key)
        self.owed.add(key)

    @rule(key=KEYS, delay=st.integers(0, 5))
    def add_later(self, key: str, delay: int) -> None:
        when = self.now + delay
        self.schedule.add_at(key, when)
        self.timers[key] = min(when, self.timers.get(key, when))

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        for key in [key for key, when in self.timers.items() if when <= self.now]:
            del self.timers[key]
            self.owed.add(key)
        key = self.schedule.next(self.now)
        free = self.owed - self.held
        if key is None:
            assert not free
        else:
            assert key in free
            self.owed.remove(key)
            self.held.add(key)

    @rule(key=KEYS)
    def give_back(self, key: str) -> None:
        if key in self.held:
            self.schedule.done(key)
            self.held.remove(key)

    @invariant()
    def length_is_bounded(self) -> None:
        assert len(self.schedule) <= 4

    @invariant()
    def next_timer_is_known(self) -> None:
        if self.timers:
            due = self.schedule.next_time()
            assert due is not None
            assert due <= min(self.timers.values())


TestSchedule = ScheduleModel.TestCase
TestSchedule.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_backoff_is_bounded_and_grows(failures: int, jitter: float) -> None:
    assert 0 < backoff(failures, jitter) <= LONGEST_DELAY
    assert backoff(failures, jitter) <= backoff(failures + 1, jitter)


def test_backoff_starts_small_and_ends_at_the_limit() -> None:
    assert backoff(1, 0.5) == FIRST_DELAY
    assert backoff(20, 0.0) == LONGEST_DELAY


def test_failures_are_counted_in_a_row() -> None:
    schedule: Schedule[str] = Schedule()
    assert [schedule.failed("a"), schedule.failed("a"), schedule.failed("b")] == [1, 2, 1]
    schedule.succeeded("a")
    assert schedule.failed("a") == 1


def test_waiters_get_keys_and_delayed_keys() -> None:
    async def run() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        waiters = [asyncio.create_task(queue.get()) for _ in range(3)]
        queue.add_after("late", 0.02)
        queue.add("now")
        queue.add("also")
        async with asyncio.timeout(5):
            return await asyncio.gather(*waiters)

    assert sorted(asyncio.run(run())) == ["also", "late", "now"]
