"""Errors of local fleets.

GTError
└── FleetError    a local fleet can't be started
"""

from __future__ import annotations

from gt_protocol.errors import GTError


class FleetError(GTError):
    """A local fleet can't be started; the message holds the last lines of the part that failed."""
