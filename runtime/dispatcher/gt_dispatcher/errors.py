"""Errors of the dispatcher.

    GTError
    └── DispatcherError
        └── Rejected        a peer is refused; carries the code and text of the refusal

The planner's own errors stand in `gt_dispatcher.planner.errors`.
"""

from __future__ import annotations

from gt_protocol.errors import GTError


class DispatcherError(GTError):
    """Root of the dispatcher's errors."""


class Rejected(DispatcherError):
    """A peer is refused.

    Attributes:
        code: One of `gt_protocol.messages.RefusalCode`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
