"""Conditions in the form of metav1.Condition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gt_operator.objects import Object, condition_of
from gt_operator.observe.pods import format_time


@dataclass(frozen=True)
class Finding:
    """A condition before it has a time.

    Attributes:
        type: What it tells about.
        holds: Whether it holds.
        reason: Why, as one word.
        message: Why, for a person.
    """

    type: str
    holds: bool
    reason: str
    message: str


def conditions(findings: Iterable[Finding], obj: Object, now: datetime) -> list[dict[str, Any]]:
    """Returns the conditions of an object; the time of each is that of its last change of status."""
    result = []
    for finding in findings:
        status = "True" if finding.holds else "False"
        old = condition_of(obj, finding.type)
        since = old["lastTransitionTime"] if old.get("status") == status else format_time(now)
        result.append(
            {
                "type": finding.type,
                "status": status,
                "reason": finding.reason,
                "message": finding.message,
                "lastTransitionTime": since,
                "observedGeneration": obj["metadata"].get("generation", 0),
            }
        )
    return result


def holds(obj: Object, kind: str) -> bool:
    """Whether a condition of an object holds."""
    return bool(condition_of(obj, kind).get("status") == "True")
