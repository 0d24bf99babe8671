"""Fleets for tests: real processes, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import gt
from gt_fleet import LocalFleet


@pytest.fixture
def start_fleet() -> Iterator[Callable[[int], LocalFleet]]:
    """Starts a fleet and connects this process to it."""
    fleets: list[LocalFleet] = []

    def start(workers: int, **settings: str) -> LocalFleet:
        fleet = LocalFleet.start(workers)
        fleets.append(fleet)
        gt.connect(fleet.address)
        return fleet

    yield start
    gt.disconnect()
    for fleet in fleets:
        fleet.stop()
