"""The Secrets with a cluster's keys: made once, and kept as long as they fit together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from gt_operator.builders.names import keys_name
from gt_operator.builders.security import keys_secret
from gt_operator.errors import NameTaken
from gt_operator.keys import ROLES, KeyRing
from gt_operator.kube.client import KubeClient
from gt_operator.objects import is_going, name_of, owner_uid
from gt_protocol.resources import GTCluster

_BELIEVED_FOR = 30.0
"""Seconds. Secrets are not watched: the right to watch those of GT would be the right to read all of them."""


@dataclass(frozen=True)
class _Known:
    fingerprint: str
    since: float


class KeyRings:
    """The keys of all clusters; only fingerprints stay in memory."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, _Known] = {}

    async def ensure(self, cluster: GTCluster) -> str:
        """Sees to it that all Secrets are there and fit together; returns the keys' fingerprint.

        Raises:
            NameTaken: A Secret of this name belongs to somebody else.
            KubeError: A call failed.
        """
        uid = cluster.metadata.uid
        known = self._known.get(uid)
        if known is not None and self._clock() - known.since < _BELIEVED_FOR:
            return known.fingerprint
        ring = await self._read(cluster) or await self._make(cluster)
        self._known[uid] = _Known(ring.fingerprint, self._clock())
        return ring.fingerprint

    def forget(self, uid: str) -> None:
        """Forgets a cluster that is gone."""
        self._known.pop(uid, None)

    async def _read(self, cluster: GTCluster) -> KeyRing | None:
        name, namespace = cluster.metadata.name, cluster.metadata.namespace
        found = await asyncio.gather(*(self._client.get("Secret", namespace, keys_name(name, role)) for role in ROLES))
        for secret in found:
            if secret is not None and owner_uid(secret) != cluster.metadata.uid:
                state = "is being deleted" if is_going(secret) else "was not made for this cluster; rename or delete it"
                raise NameTaken(f"Secret {name_of(secret)} {state}")
        return KeyRing.read(dict(zip(ROLES, found, strict=True)))

    async def _make(self, cluster: GTCluster) -> KeyRing:
        ring = KeyRing.make()
        await asyncio.gather(*(self._client.apply(keys_secret(cluster, ring, role)) for role in ROLES))
        return ring
