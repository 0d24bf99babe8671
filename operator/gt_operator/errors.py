"""Errors of the operator.

GTError
└── OperatorError
    ├── ConfigError          the operator itself is set up wrongly
    ├── TemplateError        a pod template of the user can't be laid over GT's pod
    ├── NameTaken            an object of somebody else has the name that is needed
    └── KubeError
        ├── ApiRefused       the API server said no
        └── ApiUnreachable   the API server did not answer in time
"""

from __future__ import annotations

from gt_protocol.errors import GTError


class OperatorError(GTError):
    """Root of all errors of the operator."""


class ConfigError(OperatorError):
    """The operator can't run as it is set up."""


class TemplateError(OperatorError):
    """A pod template can't be used; the message names the field."""


class NameTaken(OperatorError):
    """An object that GT did not make has the name that GT needs."""


class KubeError(OperatorError):
    """A call to the API server failed."""


class ApiUnreachable(KubeError):
    """The API server did not answer, or not in time."""


class ApiRefused(KubeError):
    """The API server answered with an error.

    Attributes:
        status: HTTP status.
        reason: Reason in one word, such as `Forbidden`; empty if it gave none.
        causes: Reasons of the causes that it named.
    """

    def __init__(self, status: int, reason: str, message: str, causes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes

    @property
    def namespace_is_going(self) -> bool:
        """Whether nothing can be made because the namespace is being deleted."""
        return self.status == 403 and "NamespaceTerminating" in self.causes
