"""Random numbers depend on the seed alone: not on the number of workers, not on the sharding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import gt
from gt_fleet import LocalFleet

StartFleet = Callable[[int], LocalFleet]


def _draw() -> list[torch.Tensor]:
    torch.manual_seed(7)
    with gt.signal.context("batch"):
        normal = torch.randn(10, 6, device="fleet")
        uniform = torch.rand(10, 6, device="fleet")
        dropped = F.dropout(torch.ones(10, 6, device="fleet"), 0.4)
    in_place = torch.zeros(9, device="fleet").uniform_()
    permutation = torch.randperm(11, device="fleet")
    integers = torch.randint(0, 100, (5, 3), device="fleet")
    chances = torch.bernoulli(uniform)
    return [value.cpu() for value in (normal, uniform, dropped, in_place, permutation, integers, chances)]


@pytest.fixture(scope="module")
def drawn() -> dict[int, list[torch.Tensor]]:
    return {}


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_seed_gives_the_same_numbers(
    workers: int, drawn: dict[int, list[torch.Tensor]], start_fleet: StartFleet
) -> None:
    gt.register_config({"version": 1, "signals": {"batch": {"shard": {"axis": 0, "workers": list(range(workers))}}}})
    start_fleet(workers)
    drawn[workers] = _draw()
    assert all(torch.equal(a, b) for a, b in zip(drawn[workers], drawn[1], strict=True))
    again = _draw()
    assert all(torch.equal(a, b) for a, b in zip(drawn[workers], again, strict=True))


def test_the_state_can_be_read_and_set(start_fleet: StartFleet) -> None:
    start_fleet(1)
    torch.manual_seed(3)
    torch.rand(4, device="fleet")
    state = torch.fleet.get_rng_state()
    first = torch.rand(4, device="fleet").cpu()
    torch.fleet.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="fleet").cpu(), first)
    assert not torch.equal(torch.rand(4, device="fleet").cpu(), first)
