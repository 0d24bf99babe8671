"""Errors of the worker.

GTError
└── WorkerError
    ├── CantStart            the environment, the device or the dispatcher's answer stops the worker
    └── StepFailed           a step has no result; it becomes an error value, never leaves the executor
        ├── Poisoned         what the step depends on has failed before
        ├── PeerLost         a worker of the group has gone, or does not answer
        └── UnusableArgument the instruction holds a constant that no worker can use
"""

from __future__ import annotations

from gt_protocol.errors import GTError
from gt_protocol.failure import Failure


class WorkerError(GTError):
    """Root of the worker's own errors."""


class CantStart(WorkerError):
    """The worker can't do its work here, whatever it tries again."""


class StepFailed(WorkerError):
    """A step of a routine has no result."""


class Poisoned(StepFailed):
    """A step depends on what failed before, here or on a peer.

    Attributes:
        failure: The first cause.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class PeerLost(StepFailed):
    """A collective can't end, because a member of its group has gone or does not answer."""


class UnusableArgument(StepFailed):
    """A constant of an instruction has no meaning here."""
