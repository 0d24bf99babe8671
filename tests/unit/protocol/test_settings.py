"""Settings and keys: what is wrong is named, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gt_protocol.errors import SettingsError
from gt_protocol.keys import read_dispatcher_keys, read_peer_keys
from gt_protocol.settings import ClientSettings, DispatcherSettings, WorkerSettings

DISPATCHER = {"GT_CLIENT_ENDPOINT": "ipc:///tmp/c", "GT_WORKER_ENDPOINT": "tcp://*:7071"}


def test_defaults_and_values_are_read() -> None:
    settings = DispatcherSettings.from_env({**DISPATCHER, "GT_WORKERS": "4", "GT_KEYS": "/keys"})
    assert (settings.workers, settings.keys, settings.heartbeat, settings.http_port) == (4, Path("/keys"), 1.0, None)
    worker = WorkerSettings.from_env({"GT_DISPATCHER": "tcp://d:7071", "GT_WORKER_INDEX": "3", "GT_DEVICE": "cuda:1"})
    assert (worker.index, worker.device, worker.host) == (3, "cuda:1", "127.0.0.1")
    client = ClientSettings.from_env({})
    assert (client.address, client.workers, client.timeout) == (None, None, 300.0)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("GT_WORKERS", "many", "must be a number"),
        ("GT_WORKERS", "-1", "between 0 and"),
        ("GT_HEARTBEAT", "nan", "between"),
        ("GT_CLIENT_ENDPOINT", "http://x", "must be an address"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}.*{says}"):
        DispatcherSettings.from_env({**DISPATCHER, name: value})


def test_keys_are_read_and_never_shown(tmp_path: Path) -> None:
    for name in ("client.public", "client.secret", "dispatcher.public", "dispatcher.secret", "worker.public"):
        (tmp_path / name).write_text(name.ljust(40, ".") + "\n")
    peer = read_peer_keys(tmp_path, "client")
    assert peer.secret == b"client.secret".ljust(40, b".")
    dispatcher = read_dispatcher_keys(tmp_path)
    assert dispatcher.worker == b"worker.public".ljust(40, b".")
    assert "secret" not in repr(peer)
    assert "secret" not in repr(dispatcher)


def test_missing_and_wrong_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"worker\.public can't be read"):
        read_peer_keys(tmp_path, "worker")
    (tmp_path / "worker.public").write_text("short")
    with pytest.raises(SettingsError, match="40 characters"):
        read_peer_keys(tmp_path, "worker")
