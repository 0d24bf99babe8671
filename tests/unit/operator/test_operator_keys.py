"""CURVE keys in Secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gt_operator.builders.security import keys_secret
from gt_operator.keys import ROLES, KeyRing
from gt_protocol.keys import read_dispatcher_keys, read_peer_keys
from tests.support.operator_objects import Object, cluster

RING = KeyRing.make()
OTHER = KeyRing.make()


def secrets(ring: KeyRing = RING) -> dict[str, Object | None]:
    return {role: keys_secret(cluster(), ring, role) for role in ROLES}


def test_secrets_are_read_back() -> None:
    assert KeyRing.read(secrets()) == RING


@pytest.mark.parametrize("role", ROLES)
def test_missing_secret_makes_the_ring_useless(role: str) -> None:
    assert KeyRing.read({**secrets(), role: None}) is None


@pytest.mark.parametrize("role", ROLES)
def test_secret_of_another_ring_does_not_fit(role: str) -> None:
    assert KeyRing.read({**secrets(), role: secrets(OTHER)[role]}) is None


@pytest.mark.parametrize("data", [{}, {"worker.secret": "!"}, {"worker.secret": "AAAA"}])
def test_damaged_secret_does_not_fit(data: dict[str, str]) -> None:
    damaged = secrets()
    assert damaged["worker"] is not None
    damaged["worker"] = {**damaged["worker"], "data": data}
    assert KeyRing.read(damaged) is None


def test_fingerprint_tells_rings_apart_and_holds_no_secret() -> None:
    assert RING.fingerprint != OTHER.fingerprint
    assert not any(pair.secret in repr(RING) for pair in RING.pairs.values())


def test_every_part_finds_its_files(tmp_path: Path) -> None:
    for role in ROLES:
        folder = tmp_path / role
        folder.mkdir()
        for name, text in RING.files(role).items():
            (folder / name).write_text(text)
    dispatcher = read_dispatcher_keys(tmp_path / "dispatcher")
    assert read_peer_keys(tmp_path / "worker", "worker").public == dispatcher.worker
    assert read_peer_keys(tmp_path / "client", "client").public == dispatcher.client
    assert read_peer_keys(tmp_path / "client", "client").dispatcher == dispatcher.public
    # A worker can't pose as a client, nor as the dispatcher.
    assert set(RING.files("worker")) == {"worker.secret", "worker.public", "dispatcher.public"}
