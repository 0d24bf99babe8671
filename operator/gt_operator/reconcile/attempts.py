"""Trying several writes, and remembering what was refused."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from gt_operator.errors import ApiRefused, NameTaken, TemplateError
from gt_operator.observe import blockers
from gt_operator.observe.blockers import Blocker

T = TypeVar("T")


class Attempts:
    """What was refused while an object was reconciled.

    An API server that doesn't answer is no refusal: then the status can't be written either, and the error goes up.
    """

    def __init__(self) -> None:
        self.refused: list[Blocker] = []

    async def run(self, what: str, attempt: Awaitable[T]) -> T | None:
        """Awaits an attempt; returns its result, or None if it was refused.

        Args:
            what: What is to be written, such as `pod a`.
            attempt: The attempt.

        Raises:
            KubeError: The API server did not answer.
        """
        try:
            return await attempt
        except ApiRefused as error:
            self.refused.append(blockers.of_refusal(error, what))
        except NameTaken as error:
            self.refused.append(Blocker(blockers.NAME_TAKEN, str(error)))
        except TemplateError as error:
            self.refused.append(Blocker(blockers.INVALID, str(error)))
        return None

    @property
    def reasons(self) -> set[str]:
        """Reasons of all that was refused."""
        return {blocker.reason for blocker in self.refused}

    @property
    def worth_retrying(self) -> bool:
        """Whether something was refused that may be allowed later."""
        return bool(self.reasons - {blockers.NAMESPACE_TERMINATING})
