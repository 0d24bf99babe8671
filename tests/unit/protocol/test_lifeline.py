"""A process ends with the owner of its lifeline."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gt_protocol.errors import SettingsError
from gt_protocol.lifeline import watch_lifeline

CHILD = """
import sys, time
from gt_protocol.lifeline import watch_lifeline
assert watch_lifeline(status=7) is not None
print("watching", flush=True)
time.sleep(60)
"""


def test_a_process_ends_when_the_other_end_closes() -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "GT_LIFELINE_FD": str(reading), "PYTHONPATH": os.pathsep.join(sys.path)},
        pass_fds=[reading],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        os.close(reading)
        assert child.stdout is not None
        assert child.stdout.readline() == "watching\n"
        assert child.poll() is None
        os.close(writing)
        assert child.wait(timeout=10) == 7


def test_without_a_lifeline_nothing_is_watched() -> None:
    assert watch_lifeline({}) is None
    assert watch_lifeline({"GT_LIFELINE_FD": ""}) is None


@pytest.mark.parametrize("text", ["pipe", "-1", "99999", "9" * 30])
def test_a_wrong_lifeline_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="GT_LIFELINE_FD"):
        watch_lifeline({"GT_LIFELINE_FD": text})
