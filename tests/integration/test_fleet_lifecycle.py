"""A local fleet starts whole or not at all, and never outlives its owner. Its parts here are stand-ins."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gt_fleet import FleetError, LocalFleet, PrivateDirectory
from gt_fleet import directory as directory_module
from gt_fleet import fleet as fleet_module
from gt_fleet.child import MAX_LOG, Child
from tests.support.stand_ins import ended, stand_in_environment

OWNER = """
import os, sys, time
from gt_fleet import LocalFleet
fleet = LocalFleet.start(2, device="cpu")
forked = os.fork() if sys.argv[1:] == ["fork"] else -1
if forked == 0:
    time.sleep(60)
print(fleet.directory, forked, *(child.pid for child in fleet._children), flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def parts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts stand-ins in place of the real dispatcher and worker."""
    for name, value in stand_in_environment(tmp_path_factory.mktemp("modules")).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for directories that this test has for itself, and finds empty in the end."""
    monkeypatch.setattr(directory_module, "_base", lambda: tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def pids(fleet: LocalFleet) -> list[int]:
    return [child.pid for child in fleet._children]


def test_a_fleet_starts_and_stops_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GT_ADDRESS", "tcp://elsewhere:1")
    with LocalFleet.start(2, device="cpu", sharding="some.yaml") as fleet:
        assert fleet.address == f"ipc://{fleet.directory}/clients"
        assert stat.S_IMODE(fleet.directory.stat().st_mode) == 0o700
        assert fleet.ended() is None
        assert len(pids(fleet)) == 3
        assert all(os.getsid(pid) == pid for pid in pids(fleet))
        log = (fleet.directory / "dispatcher.log").read_text()
        assert log == f"dispatcher with 2 {Path('some.yaml').absolute()} None\n"
    assert all(ended(pid, 0) for pid in pids(fleet))
    assert fleet.ended() == "it was stopped"
    fleet.stop()


def test_a_part_that_fails_is_named_with_its_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOD", "crash")
    begun = time.monotonic()
    with pytest.raises(FleetError) as caught:
        LocalFleet.start(2, device="cpu")
    assert "worker-1 ended with status 1\n    worker 1 cpu\n    no such device" in str(caught.value)
    assert time.monotonic() - begun < 30


def test_a_fleet_that_is_not_ready_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOD", "never ready")
    with pytest.raises(FleetError, match=r"wasn't ready in time\n  dispatcher:\n    dispatcher with 1"):
        LocalFleet.start(1, device="cpu", ready_timeout=2)


def test_a_fleet_without_its_dispatcher_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalFleet.start(2, device="cpu") as fleet:
        dispatcher, worker, _ = pids(fleet)
        os.kill(worker, signal.SIGKILL)
        assert ended(worker)
        assert fleet.ended() is None
        os.kill(dispatcher, signal.SIGKILL)
        assert ended(dispatcher)
        assert str(fleet.ended()).startswith("dispatcher was ended by SIGKILL\n    dispatcher with 2")


def test_a_part_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOD", "stubborn")
    monkeypatch.setattr(fleet_module, "GRACE", 0.2)
    fleet = LocalFleet.start(1, device="cpu")
    fleet.stop()
    assert all(ended(pid, 0) for pid in pids(fleet))


@pytest.mark.parametrize("arguments", [[], ["fork"]], ids=["alone", "with a forked child"])
def test_a_fleet_ends_with_its_owner_even_by_kill(arguments: list[str], base: Path) -> None:
    env = {**os.environ, "TMPDIR": str(base), "XDG_RUNTIME_DIR": ""}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, *arguments], env=env, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        where, *numbers = owner.stdout.readline().split()
        forked, *parts = map(int, numbers)
        owner.kill()
        assert all(ended(pid) for pid in parts)
        if forked > 0:
            assert not ended(forked, 0)
            os.kill(forked, signal.SIGKILL)
            assert ended(forked)
    assert Path(where).exists()
    with PrivateDirectory() as other:
        assert other.path.exists()
        assert not Path(where).exists()


def test_only_directories_whose_owner_is_gone_are_swept(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign, young, old = base / "other", base / "gt-fleet-young", base / "gt-fleet-old"
    for path in (foreign, young, old):
        path.mkdir()
    os.utime(old, (0, 0))
    with PrivateDirectory() as first, PrivateDirectory() as second:
        assert first.path.exists()
        assert second.path.exists()
        assert foreign.exists()
        assert young.exists()
        assert not old.exists()
    foreign.rmdir()
    young.rmdir()


def test_a_forked_child_leaves_the_fleet_alone() -> None:
    with LocalFleet.start(1, device="cpu") as fleet:
        forked = os.fork()
        if forked == 0:
            with contextlib.suppress(BaseException):
                fleet.stop()
            os._exit(0)
        os.waitpid(forked, 0)
        assert fleet.ended() is None
        assert fleet.directory.exists()


def test_a_log_is_bounded(base: Path, parts: None) -> None:
    with PrivateDirectory() as directory:
        child = Child("part", "gt_worker", {**os.environ, "GT_WORKER_INDEX": "x"}, directory.path, [])
        assert ended(child.pid)
        assert "invalid literal" in child.last_lines()
        with (directory.path / "part.log").open("ab") as log:
            log.truncate(MAX_LOG)
            child.bound_log()
            assert (directory.path / "part.log").stat().st_size == MAX_LOG
            log.write(b"more")
            log.flush()
            child.bound_log()
        assert child.last_lines() == ""
        child.close()


@pytest.mark.parametrize("workers", [0, -1, 5000])
def test_a_fleet_has_a_sensible_size(workers: int) -> None:
    with pytest.raises(FleetError, match="1 to 4096 workers"):
        LocalFleet.start(workers)
