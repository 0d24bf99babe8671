"""What a program sees when something fails on a real fleet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
import torch

import gt
from gt_fleet import LocalFleet

StartFleet = Callable[[int], LocalFleet]


def test_a_failed_operator_poisons_what_depends_on_it_and_names_where(start_fleet: StartFleet) -> None:
    start_fleet(1)
    index = torch.tensor([7]).to("fleet")
    bad = torch.zeros(3, device="fleet").index_select(0, index)
    worse = bad + 1
    with pytest.raises(gt.RemoteError) as caught:
        worse.sum().item()
    failure = caught.value.failure
    assert failure.op == "aten::index_select"
    assert failure.operands == ("float32(3)", "int64(1)")
    assert failure.worker == 0
    assert "test_failures.py" in caught.value.source
    assert torch.ones(2, device="fleet").sum().item() == 2


def test_a_killed_worker_ends_the_next_read_within_a_second(start_fleet: StartFleet) -> None:
    fleet = start_fleet(2)
    x = torch.randn(64, 64, device="fleet", requires_grad=True)
    for _ in range(20):
        (x @ x).sum().backward()
    assert x.grad is not None
    x.grad.sum().item()
    os.kill(fleet.pids["worker-0"], signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises((gt.RemoteError, gt.SessionLost), match="worker 0"):
        _train_on(x)
    assert time.monotonic() - start < 1


def _train_on(x: torch.Tensor) -> None:
    """Goes on for as long as nothing fails."""
    while True:
        (x @ x).sum().backward()
        assert x.grad is not None
        x.grad.sum().item()


def test_a_read_has_a_deadline_and_the_session_goes_on(start_fleet: StartFleet) -> None:
    fleet = start_fleet(1)
    x = torch.ones(2, device="fleet")
    assert x.sum().item() == 2
    gt.set_timeout(0.3)
    os.kill(fleet.pids["worker-0"], signal.SIGSTOP)
    try:
        with pytest.raises(gt.GTTimeoutError, match="GT_TIMEOUT"):
            x.sum().item()
    finally:
        os.kill(fleet.pids["worker-0"], signal.SIGCONT)
        gt.set_timeout(60)
    assert (x + 1).sum().item() == 4


def test_ctrl_c_ends_a_read_and_leaves_the_session_usable(start_fleet: StartFleet) -> None:
    fleet = start_fleet(1)
    x = torch.ones(2, device="fleet")
    assert x.sum().item() == 2
    os.kill(fleet.pids["worker-0"], signal.SIGSTOP)
    press = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    press.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            x.sum().item()
    finally:
        press.join()
        os.kill(fleet.pids["worker-0"], signal.SIGCONT)
    assert (x + 1).sum().item() == 4


FORKS_FIRST = """
import os, sys, torch, gt
pid = os.fork()
print("child" if pid == 0 else "parent", torch.ones(3, device="fleet").sum().item(), flush=True)
gt.disconnect()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_child_forked_before_the_first_use_has_a_session_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS_FIRST], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["child 3.0", "parent 3.0"]
