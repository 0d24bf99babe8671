"""Whole programs on the fleet against the same on the CPU."""

from __future__ import annotations

from typing import Any

import programs_training  # noqa: F401  # adds its programs
import pytest
import torch
from loopback import Loopback
from programs import PROGRAMS


def assert_same(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        assert isinstance(got, torch.Tensor)
        assert got.dtype == want.dtype
        assert got.requires_grad == want.requires_grad
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=1e-4, atol=1e-5)
    elif isinstance(want, list | tuple):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        assert_same(list(got.values()), list(want.values()))
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=1e-4, abs=1e-5)
    else:
        assert type(got) is type(want)
        assert got == want


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_the_same_as_on_the_cpu(name: str, fleet: Loopback) -> None:
    want = PROGRAMS[name]("cpu")
    got = PROGRAMS[name]("fleet")
    assert_same(got, want)
    assert fleet.blocks
