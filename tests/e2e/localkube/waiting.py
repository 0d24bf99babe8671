"""Waiting for a state of another process, always with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


class DeadlineError(TimeoutError):
    """What was waited for did not happen in time."""


def wait_until(condition: Callable[[], bool], what: str, timeout: float, interval: float = 0.1) -> None:
    """Poll ``condition`` until it holds.

    Args:
        condition: What must become true.
        what: What is waited for, in words that complete "... did not happen".
        timeout: Seconds until the wait is given up.
        interval: Seconds between two looks; only for states that offer nothing to watch.

    Raises:
        DeadlineError: ``condition`` did not hold in time.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise DeadlineError(f"after {timeout:.0f} s this did not happen: {what}")
        time.sleep(interval)
