"""Where the program waits for the fleet: each read, by the line that asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gt.sources import Source, format_source

#: Lines to remember; further ones are counted together.
MAX_LINES: Final = 1 << 12


@dataclass(frozen=True)
class Wait:
    """How often and how long one line waited.

    Attributes:
        source: The line, such as `train.py:12, in step`; empty for lines beyond the limit.
        count: Number of reads.
        seconds: Time spent waiting, in total.
    """

    source: str
    count: int
    seconds: float


class WaitTable:
    """Counts waits."""

    def __init__(self) -> None:
        self._lines: dict[Source, tuple[int, float]] = {}

    def add(self, source: Source, seconds: float) -> None:
        """Counts one."""
        lines = self._lines
        if source not in lines and len(lines) >= MAX_LINES:
            source = None
        count, total = lines.get(source, (0, 0.0))
        lines[source] = (count + 1, total + seconds)

    def report(self) -> list[Wait]:
        """All lines that waited, longest first."""
        lines: dict[str, Wait] = {}
        for source, (count, seconds) in self._lines.copy().items():
            text = format_source(source)
            same = lines.get(text, Wait(text, 0, 0.0))
            lines[text] = Wait(text, same.count + count, same.seconds + seconds)
        return sorted(lines.values(), key=lambda wait: -wait.seconds)

    def clear(self) -> None:
        """Begins anew."""
        self._lines.clear()


waits: Final = WaitTable()
