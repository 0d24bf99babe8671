"""Seeds of random instructions."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from gt_worker.randomness import instruction_seed, mix32, mix64


@given(st.integers(), st.integers(0, (1 << 64) - 1))
def test_seeds_fit_and_repeat(seed: int, counter: int) -> None:
    value = instruction_seed(seed, counter)
    assert 0 <= value < 1 << 64
    assert value == instruction_seed(seed, counter)


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 32))
def test_no_two_instructions_of_a_session_share_a_stream_on_cpu(seed: int, first: int) -> None:
    """The CPU's generator sees the low 32 bits only."""
    low = {instruction_seed(seed, first + step) & 0xFFFFFFFF for step in range(500)}
    assert len(low) == 500


def test_mixers_are_the_published_ones() -> None:
    """First output of SplitMix64 with seed 0, and MurmurHash3's finaliser of 1."""
    assert mix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert mix32(1) == 0x514E28B7


def test_neighbouring_seeds_and_counters_are_unrelated() -> None:
    """Means and correlations of draws from neighbours stay within what chance allows."""
    draws = torch.stack(
        [
            torch.randn(4096, generator=torch.Generator().manual_seed(instruction_seed(seed, counter)))
            for seed in range(4)
            for counter in range(8)
        ]
    )
    correlation = torch.corrcoef(draws) - torch.eye(32)
    assert float(draws.mean(1).abs().max()) < 5 / 64
    assert float(correlation.abs().max()) < 5 / 64
