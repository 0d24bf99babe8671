"""Reads typed values out of nodes, with errors that say where and what to do."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from typing import Final

from gt_protocol.errors import ShardingError
from gt_protocol.settings import MAX_WORKERS
from gt_protocol.sharding.tree import Mapping, Node, Scalar, Sequence

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,9}")
_NUMBER: Final = re.compile(r"[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: YAML 1.1's words, as PyYAML reads them.
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SHOWN: Final = 60


class Reader:
    """Reads the parts of one file.

    Args:
        source: What to call the file in messages.
        workers: Number of workers that are there, or None if that isn't known.
        signal: The signal that is being read, or None outside of signals.
    """

    def __init__(self, source: str, workers: int | None, signal: str | None = None) -> None:
        self.source = source
        self.workers = workers
        self.signal = signal

    def of_signal(self, name: str) -> Reader:
        """The same reader, whose errors name a signal."""
        return Reader(self.source, self.workers, shown(name))

    def error(self, node: Node, message: str, hint: str | None = None) -> ShardingError:
        """An error at a node."""
        return ShardingError(
            message, source=self.source, line=node.line, column=node.column, signal=self.signal, hint=hint
        )

    def mapping(self, node: Node, what: str, example: str) -> Mapping:
        """The node as a mapping; `what` and `example` describe it in the error."""
        if not isinstance(node, Mapping):
            raise self.error(node, f"{what} must be a mapping, not {describe(node)}", f"such as {example}")
        return node

    def keys(self, node: Mapping, known: Iterable[str]) -> dict[str, tuple[Scalar, Node]]:
        """The entries of a mapping that may have the known keys only; each with its key's node and its value."""
        known = tuple(known)
        entries = {key.text: (key, value) for key, value in node.items}
        for name, (key, _) in entries.items():
            if name not in known:
                raise self.error(key, f'unknown key "{shown(name)}"', nearest(name, known, "known keys"))
        return entries

    def string(self, node: Node, what: str) -> str:
        """The node as a text that isn't empty."""
        if not isinstance(node, Scalar) or is_null(node) or not node.text.strip():
            raise self.error(node, f"{what} must be a name, not {describe(node)}")
        return node.text

    def boolean(self, node: Node, what: str) -> bool:
        """The node as true or false."""
        value = _BOOLEANS.get(node.text.lower()) if isinstance(node, Scalar) and node.plain else None
        if value is None:
            raise self.error(node, f"{what} must be true or false, not {describe(node)}")
        return value

    def integer(self, node: Node, what: str, low: int, high: int) -> int:
        """The node as a number between two limits, both included."""
        if not isinstance(node, Scalar) or not node.plain or not _INTEGER.fullmatch(node.text):
            raise self.error(node, f"{what} must be a whole number, not {describe(node)}")
        value = int(node.text)
        if not low <= value <= high:
            raise self.error(node, f"{what} must be between {low} and {high}, not {value}")
        return value

    def weight(self, node: Node) -> float:
        """The node as a number above 0."""
        if not isinstance(node, Scalar) or not node.plain or not _NUMBER.fullmatch(node.text):
            raise self.error(node, f"a weight must be a number above 0, not {describe(node)}")
        value = float(node.text)
        if not 0 < value < math.inf:
            raise self.error(node, f"a weight must be a number above 0, not {shown(node.text)}")
        return value

    def items(self, node: Node, what: str, example: str) -> list[Node]:
        """The items of a list that isn't empty."""
        if not isinstance(node, Sequence):
            raise self.error(node, f"{what} must be a list, not {describe(node)}", f"such as {example}")
        if not node.items:
            raise self.error(node, f"{what} must not be empty", f"such as {example}")
        return node.items

    def worker_list(self, node: Node) -> tuple[int, ...]:
        """The node as a list of distinct workers that are there."""
        seen: dict[int, None] = {}
        for item in self.items(node, "workers", "[0, 1]"):
            worker = self.integer(item, "a worker", 0, MAX_WORKERS - 1)
            if worker in seen:
                raise self.error(item, f"worker {worker} is here twice", "name each worker once")
            if self.workers is not None and worker >= self.workers:
                raise self.error(item, f"worker {worker} isn't there", _there(self.workers))
            seen[worker] = None
        return tuple(seen)

    def each(self, node: Mapping, read: Callable[[Scalar, Node], None], what: str, limit: int) -> None:
        """Reads each entry of a mapping with free names, up to a limit."""
        if len(node.items) > limit:
            raise self.error(node, f"{len(node.items):,} {what} are too many", f"at most {limit:,} are allowed")
        for key, value in node.items:
            read(key, value)


def is_null(node: Node) -> bool:
    """Whether YAML reads the node as nothing."""
    return isinstance(node, Scalar) and node.plain and node.text in {"", "~", "null", "Null", "NULL"}


def shown(text: str) -> str:
    """A text as a message shows it, cut to a bearable length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def describe(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if is_null(node) else f'"{shown(node.text)}"'


def nearest(name: str, known: Iterable[str], title: str) -> str | None:
    """A hint at the known name nearest to a wrong one, else at all known ones."""
    known = tuple(known)
    # Compared is only what could be a slip: similarity costs the product of the lengths.
    close = difflib.get_close_matches(name[:_SHOWN], known[:256], 1)
    if close:
        return f'did you mean "{shown(close[0])}"?'
    listed = ", ".join(shown(entry) for entry in known[:8]) + (", ..." if len(known) > 8 else "")
    return f"{title}: {listed}" if known else None


def _there(workers: int) -> str:
    if workers < 1:
        return "the cluster has no worker"
    return "the cluster has worker 0 only" if workers == 1 else f"the cluster has workers 0 to {workers - 1}"
