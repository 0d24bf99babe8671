"""Who leads, and whether the watches are alive, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gt_operator.health import ELECTION_SILENCE, WATCH_LAG, Pulse
from gt_operator.kube.lease import DURATION, RENEW_DEADLINE, RETRY_PERIOD, Watchfulness, held, may_hold, released
from tests.support.operator_objects import Object

WALL = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY: Object = {"metadata": {"name": "l", "resourceVersion": "1"}}


def at(lease: Object, version: int) -> Object:
    return {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(version)}}


def test_empty_lease_may_be_taken() -> None:
    assert may_hold(EMPTY, "a", Watchfulness(), 0.0)


def test_holder_may_renew_and_others_wait_for_the_end_by_their_own_clock() -> None:
    lease = at(held(EMPTY, "a", WALL), 2)
    memory = Watchfulness()
    memory.see(lease, 100.0)
    assert may_hold(lease, "a", memory, 100.0)
    assert not may_hold(lease, "b", memory, 100.0 + DURATION)
    assert may_hold(lease, "b", memory, 100.1 + DURATION)


def test_renewal_is_seen_whatever_the_holders_clock_says() -> None:
    lease = at(held(EMPTY, "a", WALL), 2)
    memory = Watchfulness()
    memory.see(lease, 100.0)
    memory.see(at(held(lease, "a", WALL), 3), 110.0)
    assert not may_hold(lease, "b", memory, 100.0 + DURATION + 1)


def test_released_lease_may_be_taken_at_once() -> None:
    assert may_hold(released(held(EMPTY, "a", WALL), WALL), "b", Watchfulness(), 0.0)


def test_lease_counts_takeovers_and_keeps_the_time_of_the_last() -> None:
    first = held(EMPTY, "a", WALL)
    later = held(first, "a", WALL.replace(hour=1))
    assert later["spec"]["leaseTransitions"] == 1
    assert later["spec"]["acquireTime"] == first["spec"]["acquireTime"] != later["spec"]["renewTime"]
    assert held(later, "b", WALL)["spec"]["leaseTransitions"] == 2
    assert later["metadata"]["resourceVersion"] == "1"


def test_leader_stops_before_others_start() -> None:
    assert RENEW_DEADLINE + RETRY_PERIOD < DURATION


@pytest.mark.parametrize(
    ("through_watch", "by_call", "alive"),
    [
        (1000.0, 1000.0, True),
        (1000.0, 1000.0 + WATCH_LAG, True),
        (1000.0, 1001.0 + WATCH_LAG, False),
        # The API server can't be reached: neither sees anything.
        (1000.0, 1002.0, True),
        # Watches have never started.
        (0.0, 501.0 + WATCH_LAG, False),
    ],
)
def test_watches_that_lag_behind_calls_are_dead(through_watch: float, by_call: float, alive: bool) -> None:
    pulse = Pulse(started=500.0)
    pulse.through_watch, pulse.by_call, pulse.tried = through_watch, by_call, 5000.0
    assert (pulse.problem(now=5000.0) is None) == alive


def test_election_that_stopped_trying_is_dead() -> None:
    pulse = Pulse(started=0.0)
    assert pulse.problem(now=ELECTION_SILENCE) is None
    assert pulse.problem(now=ELECTION_SILENCE + 1) is not None
    assert not pulse.ready
