"""What a sharding file says, once it has been read and checked."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from gt_protocol.placements import Placement

#: Names whose rule is remembered; a program has few thousand, and more only cost the search again.
MAX_REMEMBERED: Final = 8192

Weights: TypeAlias = tuple[float, ...] | Literal["auto"]
"""Relative sizes of the parts along the one sharded mesh dimension; `auto` measures the workers."""


@dataclass(frozen=True)
class MeshSpec:
    """A grid of workers.

    Attributes:
        workers: Indices of the workers, in row-major order. Empty only where a rule means all workers and the file
            was read without knowing how many there are.
        shape: Size of each dimension.
        dim_names: Name of each dimension; a dimension that the file doesn't name has its number as name.
    """

    workers: tuple[int, ...]
    shape: tuple[int, ...]
    dim_names: tuple[str, ...]


@dataclass(frozen=True)
class SignalRule:
    """What the file says of one signal, or of all signals that a pattern matches.

    Attributes:
        name: Name or pattern, as written.
        mesh: Where it lives, or None if the rule doesn't say.
        placements: One for each dimension of the mesh, or None if the rule doesn't say.
        weights: Relative sizes of the parts, or None for even ones.
        backward: Signal that the region's backward work runs under, or None for its own.
        compile: Whether workers compile the region.
        line: Line of the rule in the file, from 1.
    """

    name: str
    mesh: MeshSpec | None = None
    placements: tuple[Placement, ...] | None = None
    weights: Weights | None = None
    backward: str | None = None
    compile: bool = False
    line: int = 0

    @property
    def is_pattern(self) -> bool:
        """Whether the name is a glob."""
        return any(character in self.name for character in "*?[")


@dataclass(frozen=True)
class ShardingConfig:
    """A whole sharding file.

    Attributes:
        rules: The rules, in the order of the file.
        source: What the file is called in messages.
    """

    rules: tuple[SignalRule, ...] = ()
    source: str = "<string>"
    _exact: dict[str, SignalRule] = field(init=False, repr=False, compare=False)
    _patterns: tuple[tuple[re.Pattern[str], SignalRule], ...] = field(init=False, repr=False, compare=False)
    _remembered: dict[str, SignalRule | None] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        patterns = [(number, rule) for number, rule in enumerate(self.rules) if rule.is_pattern]
        # In the order of precedence, so that the first match wins.
        patterns.sort(key=lambda entry: (-len(entry[1].name), -entry[0]))
        compiled = tuple((re.compile(fnmatch.translate(rule.name)), rule) for _, rule in patterns)
        object.__setattr__(self, "_exact", {rule.name: rule for rule in self.rules})
        object.__setattr__(self, "_patterns", compiled)

    def match(self, name: str) -> SignalRule | None:
        """The rule of a signal: that of the very name, else of the longest pattern, else of the later line.

        Args:
            name: A dotted name. Case counts; `*` also matches dots.
        """
        try:
            return self._remembered[name]
        except KeyError:
            pass
        rule = self._search(name)
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[name] = rule
        return rule

    def unmatched(self, names: Iterable[str]) -> tuple[str, ...]:
        """The rules that concern none of the names, in the order of the file.

        A rule that always loses against a longer pattern is no mistake, so it counts as matched. So does the rule of a
        backward signal whose forward signal is among the names.

        Args:
            names: Names of the program's signals.
        """
        seen = set(names)
        seen |= {rule.backward for name in seen if (rule := self.match(name)) is not None and rule.backward is not None}
        matched = seen & self._exact.keys()
        matched |= {rule.name for regex, rule in self._patterns if any(regex.match(name) for name in seen)}
        return tuple(rule.name for rule in self.rules if rule.name not in matched)

    def _search(self, name: str) -> SignalRule | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        return next((rule for regex, rule in self._patterns if regex.match(name)), None)
