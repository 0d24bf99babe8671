"""The regions that a session is in, and what its sharding file says of them."""

from __future__ import annotations

from collections.abc import Callable

from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.plan import Region
from gt_protocol.errors import GTError, MalformedFrame, ShardingError
from gt_protocol.sharding import ShardingConfig, SignalRule

#: Regions of a program may nest this deep.
MAX_REGIONS = 256


class RegionKeys:
    """Gives each distinct (region, home) a small number, for keys of the plan cache."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Region | None, Mesh | None], int] = {}

    def get(self, region: Region | None, home: Mesh | None) -> int:
        """The number of a region and home."""
        return self._numbers.setdefault((region, home), len(self._numbers))


class RegionStack:
    """The regions of one session, innermost last.

    Args:
        sharding: The session's sharding file, or None.
        resolve: Turns a rule into a region on the workers that are there.
        keys: Numbers regions.
        home: Where tensors without a region are made; None while there is no worker.
    """

    def __init__(
        self,
        sharding: ShardingConfig | None,
        resolve: Callable[[SignalRule], Region | None],
        keys: RegionKeys,
        home: Mesh | None,
    ) -> None:
        self._sharding = sharding
        self._resolve = resolve
        self._keys = keys
        self._resolved: dict[str, Region | None] = {}
        self._stack: list[tuple[str, Region | None]] = []
        self.home = home
        self.current: Region | None = None
        self.signal = ""
        self.key = keys.get(None, home)

    def enter(self, signal: str) -> None:
        """A region begins; without a rule of its own it is part of the one around it.

        Raises:
            MalformedFrame: Regions nest too deep.
        """
        if len(self._stack) >= MAX_REGIONS:
            raise MalformedFrame(f"regions nest deeper than {MAX_REGIONS}")
        self._stack.append((self.signal, self.current))
        region = self._find(signal)
        self._set(signal, region if region is not None else self.current)

    def leave(self) -> None:
        """The innermost region ends.

        Raises:
            MalformedFrame: The session is in no region.
        """
        if not self._stack:
            raise MalformedFrame("a region ends that never began")
        self._set(*self._stack.pop())

    def tensor_region(self, signal: str) -> Region | None:
        """What a tensor's signal says of it.

        Raises:
            ShardingError: The rule names workers that are not there.
        """
        return self._find(signal)

    def rehome(self, home: Mesh | None) -> None:
        """The workers have changed: what was resolved is looked up anew from now on."""
        self.home = home
        self._resolved.clear()
        signals = [signal for signal, _ in self._stack[1:]] + [self.signal]
        depth = len(self._stack)
        self._stack.clear()
        self._set("", None)
        for signal in signals[-depth:] if depth else []:
            self.enter(signal)

    def _find(self, signal: str) -> Region | None:
        if signal not in self._resolved:
            rule = self._sharding.match(signal) if self._sharding is not None else None
            self._resolved[signal] = self._resolve(rule) if rule is not None else None
        return self._resolved[signal]

    def _set(self, signal: str, region: Region | None) -> None:
        self.signal = signal
        self.current = region
        self.key = self._keys.get(region, self.home)


def check_sharding(sharding: ShardingConfig, resolve: Callable[[SignalRule], Region | None]) -> None:
    """Checks that every rule of a file can be carried out on the workers that are there.

    Raises:
        ShardingError: One can't.
    """
    for rule in sharding.rules:
        try:
            resolve(rule)
        except ShardingError:
            raise
        except GTError as error:
            raise ShardingError(str(error), line=rule.line, signal=rule.name) from None
