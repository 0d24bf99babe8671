"""CURVE keys of a cluster: how they are made, and how they lie in Secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import zmq

from gt_operator.objects import Object, digest
from gt_protocol.resources.constants import CLIENT, DISPATCHER, WORKER

ROLES = (DISPATCHER, WORKER, CLIENT)


@dataclass(frozen=True)
class KeyPair:
    """A CURVE key pair, as Z85 text."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def make(cls) -> Self:
        """Makes a new pair."""
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @property
    def fits(self) -> bool:
        """Whether both halves are keys, and belong together."""
        try:
            return zmq.curve_public(self.secret.encode()).decode() == self.public
        except (ValueError, zmq.ZMQError):
            return False


@dataclass(frozen=True)
class KeyRing:
    """All keys of a cluster, by role."""

    pairs: Mapping[str, KeyPair]

    @classmethod
    def make(cls) -> Self:
        """Makes new keys for all roles."""
        return cls({role: KeyPair.make() for role in ROLES})

    @classmethod
    def read(cls, secrets: Mapping[str, Object | None]) -> Self | None:
        """Reads the keys from the Secrets of all roles.

        Returns:
            The keys, or None if one is missing or they don't fit together.
        """
        files = {role: _read_data(secret) for role, secret in secrets.items()}
        ring = cls(
            {role: KeyPair(*(files[role].get(f"{role}.{half}", "") for half in ("public", "secret"))) for role in ROLES}
        )
        whole = all(pair.fits for pair in ring.pairs.values())
        return ring if whole and all(ring.files(role).items() <= files[role].items() for role in ROLES) else None

    def files(self, role: str) -> dict[str, str]:
        """The files that a role finds in its folder of keys."""
        known = (WORKER, CLIENT) if role == DISPATCHER else (DISPATCHER,)
        own = self.pairs[role]
        return {
            f"{role}.secret": own.secret,
            f"{role}.public": own.public,
            **{f"{other}.public": self.pairs[other].public for other in known},
        }

    def data(self, role: str) -> dict[str, str]:
        """The same as the data of a Secret."""
        return {name: base64.b64encode(text.encode()).decode() for name, text in self.files(role).items()}

    @property
    def fingerprint(self) -> str:
        """Tells rings apart without telling any secret."""
        return digest([self.pairs[role].public for role in ROLES])


def _read_data(secret: Object | None) -> dict[str, str]:
    try:
        data = (secret or {}).get("data") or {}
        return {name: base64.b64decode(text, validate=True).decode("ascii") for name, text in data.items()}
    except (binascii.Error, UnicodeDecodeError):
        return {}
