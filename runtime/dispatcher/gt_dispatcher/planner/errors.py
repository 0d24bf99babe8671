"""Errors of the planner.

    GTError
    └── PlanError               an instruction can't be planned
        ├── UnsupportedMesh     a mesh that this planner can't work on
        └── MissingWorker       a rule names a worker that is not there

`NoRule` is no error but control flow within the planner.
"""

from __future__ import annotations

from gt_protocol.errors import GTError, ShardingError


class PlanError(GTError):
    """An instruction can't be planned, whatever is done to its operands."""


class UnsupportedMesh(PlanError, ShardingError):
    """A mesh, or a way to split a tensor over it, that this planner can't work on."""


class MissingWorker(PlanError, ShardingError):
    """A rule of the sharding file names workers that are not there."""


class NoRule(Exception):
    """A rule does not cover the instruction after all; the message says why. It never leaves the planner."""
