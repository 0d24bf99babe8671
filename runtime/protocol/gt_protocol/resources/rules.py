"""Rules of the custom resources that no type expresses.

Each rule stands once, beside the model it belongs to, in two languages: CEL, for the API server, and Python, for who
checks a manifest without one. A table of cases, run through both, keeps the two the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """What must hold for an object.

    Attributes:
        cel: The rule for the API server, where `self` is the object.
        message: What the user reads when it doesn't hold.
        holds: The rule in Python; it gets the validated model.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Transition:
    """What must hold between an object and its successor.

    Attributes:
        cel: The rule for the API server, where `oldSelf` is the object before and `self` after the change.
        message: What the user reads when it doesn't hold.
        holds: The rule in Python; it gets the models before and after.
    """

    cel: str
    message: str
    holds: Callable[[Any, Any], bool]
