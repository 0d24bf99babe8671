"""Every test of the client runs on a session of its own within the process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import torch
from loopback import Loopback

import gt.device  # noqa: F401  # makes the device known
from gt.blocks import builder
from gt.session_api import provider


@pytest.fixture
def fleet() -> Iterator[Loopback]:
    """A fleet within the process; nothing of the test may stay on it."""
    before, gap = (provider.current, provider.begun), builder.idle.gap
    loopback = Loopback()
    provider.current, provider.begun = lambda: loopback, lambda: True
    builder.reset()
    builder.idle.gap = 60.0  # blocks end where the program says, not where the machine was slow
    torch.manual_seed(0)
    yield loopback
    gc.collect()
    builder.flush()
    builder.reset()
    provider.current, provider.begun = before
    builder.idle.gap = gap
