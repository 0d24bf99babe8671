"""A fleet of local processes: one dispatcher and its workers, for programs without a cluster.

This package imports neither torch nor zmq, so that starting a fleet costs its owner nothing.
"""

from gt_fleet.directory import PrivateDirectory
from gt_fleet.errors import FleetError
from gt_fleet.fleet import LocalFleet

__all__ = ["FleetError", "LocalFleet", "PrivateDirectory"]
