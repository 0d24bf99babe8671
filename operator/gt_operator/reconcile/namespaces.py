"""Namespaces that are being deleted. Each object that goes with one is an event, and none of them needs an answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LEFT_ALONE_FOR: Final = 10.0
"""Seconds after a refusal in which nothing is tried in a namespace; another of its name may come after it."""


class LeavingNamespaces:
    """Which namespaces refused a write because they are being deleted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[str, float] = {}

    def note(self, namespace: str) -> None:
        """Takes note of a refusal."""
        self._refused[namespace] = self._clock()

    def rest(self, namespace: str) -> float:
        """Returns for how many seconds nothing should be tried; 0 if the namespace is not known to be leaving."""
        since = self._refused.get(namespace)
        if since is None:
            return 0.0
        rest = since + LEFT_ALONE_FOR - self._clock()
        if rest <= 0:
            del self._refused[namespace]
        return max(0.0, rest)
