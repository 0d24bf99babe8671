"""Looking into a program that uses the fleet."""

from __future__ import annotations

from gt.waits import Wait
from gt.waits import waits as _table

__all__ = ["Wait", "clear_waits", "waits"]


def waits() -> list[Wait]:
    """Where this process waited for values (`.item()`, `.cpu()`, `print`, a boolean mask, ...), longest first.

    Each wait stops the stream of instructions until the workers have caught up, so a program is as fast as it can be
    where this list is short.
    """
    return _table.report()


def clear_waits() -> None:
    """Forgets the waits so far."""
    _table.clear()
