"""Between hosts, only holders of the right keys get in, and each only at its own port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zmq

from gt.errors import ConnectError
from gt.session import Session, SessionSettings
from gt_protocol.keys import read_peer_keys
from gt_protocol.settings import LIFELINE_FD

ROLES = ("client", "dispatcher", "worker")


@dataclass
class Dispatcher:
    """A dispatcher on tcp with keys."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line of the log that matches; the test's deadline bounds the wait."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            match = re.search(pattern, line)
            if match:
                return match
        raise AssertionError(f"the log ended without {pattern!r}: {self.lines}")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    for role in ROLES:
        public, secret = zmq.curve_keypair()
        (tmp_path / f"{role}.public").write_bytes(public)
        (tmp_path / f"{role}.secret").write_bytes(secret)
    return tmp_path


@pytest.fixture
def lifeline() -> Iterator[int]:
    """Ends the processes that inherit it with this one, whatever ends this one."""
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


@pytest.fixture
def dispatcher(keys: Path, lifeline: int) -> Iterator[Dispatcher]:
    env = {
        **os.environ,
        "GT_CLIENT_ENDPOINT": "tcp://127.0.0.1:*",
        "GT_WORKER_ENDPOINT": "tcp://127.0.0.1:*",
        "GT_KEYS": str(keys),
        "GT_LOG_FORMAT": "json",
        LIFELINE_FD: str(lifeline),
    }
    command = [sys.executable, "-m", "gt_dispatcher"]
    process = subprocess.Popen(command, env=env, pass_fds=[lifeline], stderr=subprocess.PIPE, text=True)
    try:
        yield Dispatcher(process)
    finally:
        process.terminate()
        process.wait(timeout=20)
        assert process.stderr is not None
        process.stderr.close()


def _connect(address: str, keys: Path, role: str = "client", timeout: float = 20.0) -> Session:
    peer = read_peer_keys(keys, role)  # type: ignore[arg-type]  # a wrong role is what some tests are about
    return Session(SessionSettings(address=address, keys=peer, connect_timeout=timeout))


def test_the_right_key_gets_in_and_every_other_does_not(dispatcher: Dispatcher, keys: Path, tmp_path: Path) -> None:
    line = dispatcher.wait_for(r'"clients": "(tcp://[^"]+)", "workers": "(tcp://[^"]+)".*"encrypted": true')
    clients, workers = line[1], line[2]
    session = _connect(clients, keys)
    session.close()
    with pytest.raises(ConnectError, match="GT_KEYS"):
        _connect(clients, keys, role="worker", timeout=1.0)
    with pytest.raises(ConnectError):
        _connect(workers, keys, timeout=1.0)
    public, secret = zmq.curve_keypair()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "client.public").write_bytes(public)
    (stranger / "client.secret").write_bytes(secret)
    (stranger / "dispatcher.public").write_bytes((keys / "dispatcher.public").read_bytes())
    with pytest.raises(ConnectError):
        _connect(clients, stranger, timeout=1.0)
    with pytest.raises(ConnectError):
        Session(SessionSettings(address=clients, connect_timeout=1.0))


def test_a_worker_with_the_right_key_is_accepted(dispatcher: Dispatcher, keys: Path, lifeline: int) -> None:
    line = dispatcher.wait_for(r'"workers": "(tcp://[^"]+)"')
    settings = {"GT_DISPATCHER": line[1], "GT_KEYS": str(keys), "GT_DEVICE": "cpu", LIFELINE_FD: str(lifeline)}
    worker = subprocess.Popen(
        [sys.executable, "-m", "gt_worker"],
        env={**os.environ, **settings},
        pass_fds=[lifeline],
        stderr=subprocess.DEVNULL,
    )
    deadline = threading.Timer(90, dispatcher.process.kill)
    deadline.start()
    try:
        dispatcher.wait_for("worker accepted")
    finally:
        deadline.cancel()
        worker.terminate()
        worker.wait(timeout=30)
