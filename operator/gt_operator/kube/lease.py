"""The Lease by which replicas of the operator agree on one of them: rules without clock and network.

A replica believes in the holder as long as it sees the Lease change, by its own clock; so clocks need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gt_operator.objects import Object

DURATION = 15.0
"""Seconds without renewal after which others may take over."""
RENEW_DEADLINE = 10.0
"""Seconds without renewal after which a leader stops, well before others may start."""
RETRY_PERIOD = 2.0
"""Seconds between renewals, and between attempts to take over."""


@dataclass
class Watchfulness:
    """What a replica remembers of the Lease.

    Attributes:
        version: Version of the Lease when last read.
        since: When that version was first seen, by the replica's own clock in seconds.
    """

    version: str = ""
    since: float = 0.0

    def see(self, lease: Object, now: float) -> None:
        """Takes note of the Lease as it is now."""
        version = lease["metadata"]["resourceVersion"]
        if version != self.version:
            self.version, self.since = version, now


def may_hold(lease: Object, identity: str, memory: Watchfulness, now: float) -> bool:
    """Whether this replica may write itself into the Lease."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if holder in ("", identity):
        return True
    return now - memory.since > float(spec.get("leaseDurationSeconds") or DURATION)


def held(lease: Object, identity: str, wall: datetime) -> Object:
    """Returns the Lease as this replica writes it, to take or renew it."""
    spec = lease.get("spec") or {}
    time = _micro_time(wall)
    same = spec.get("holderIdentity") == identity
    return {
        **lease,
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": spec["acquireTime"] if same and "acquireTime" in spec else time,
            "renewTime": time,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (not same),
        },
    }


def released(lease: Object, wall: datetime) -> Object:
    """Returns the Lease as a leader leaves it, so that others need not wait."""
    spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time(wall)}
    return {**lease, "spec": spec}


def _micro_time(wall: datetime) -> str:
    return wall.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
