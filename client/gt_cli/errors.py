"""Errors of the commands.

GTError
└── CommandError    the command line asks for what can't be done
"""

from __future__ import annotations

from gt_protocol.errors import GTError


class CommandError(GTError):
    """The command line asks for something that can't be done; the message says what to do instead."""


class Terminated(BaseException):
    """A signal asks this program to end. No `Exception`, so that nothing on the way takes it for a failure.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
