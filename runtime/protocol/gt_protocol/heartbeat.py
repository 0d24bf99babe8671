"""When to say a word, and when to take a silent peer for dead. Pure: the caller brings the time."""

from __future__ import annotations


class Pulse:
    """Both directions of one peer's signs of life.

    Args:
        interval: Seconds between our heartbeats.
        silence: Seconds without a word after which the peer counts as dead.
        now: The present time, in seconds of any monotonic clock.
    """

    def __init__(self, interval: float, silence: float, now: float) -> None:
        self.interval = interval
        self.silence = silence
        self._heard = now
        self._spoke = now

    def heard(self, now: float) -> None:
        """A message came in."""
        self._heard = now

    def spoke(self, now: float) -> None:
        """A message went out."""
        self._spoke = now

    def due(self, now: float) -> bool:
        """Whether it is time for a heartbeat."""
        return now - self._spoke >= self.interval

    def dead(self, now: float) -> bool:
        """Whether the peer has been silent for too long."""
        return now - self._heard >= self.silence

    def silent_for(self, now: float) -> float:
        """Seconds since the peer's last word."""
        return now - self._heard
