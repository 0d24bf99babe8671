"""YAML as a tree of nodes that know their place, built within bounds.

The tree is made from the parser's events, not by a loader: depth and number of nodes are counted while they come, so
that no text can exhaust stack or memory, and scalars stay text, so that a signal may be called `on` or `007`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import yaml
from yaml.reader import Reader as _YamlReader

from gt_protocol.errors import ShardingError

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16
#: Nodes of a file, each counted as often as aliases repeat it.
MAX_NODES: Final = 100_000

# libyaml's parser is some ten times faster; PyYAML may be built without it.
_Loader: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(eq=False)
class Scalar:
    """A single value.

    Attributes:
        line: Line, from 1.
        column: Column, from 1.
        text: The value as written, without quotes.
        plain: Whether it was written without quotes.
        size: Always 1.
    """

    line: int
    column: int
    text: str
    plain: bool
    size: int = 1


@dataclass(eq=False)
class Sequence:
    """A list. `line`, `column` as for scalars; `size` is the number of nodes in it, itself included."""

    line: int
    column: int
    items: list[Node] = field(default_factory=list)
    size: int = 1


@dataclass(eq=False)
class Mapping:
    """A mapping in the order of the file. `line`, `column`, `size` as for sequences."""

    line: int
    column: int
    items: list[tuple[Scalar, Node]] = field(default_factory=list)
    size: int = 1


Node: TypeAlias = Scalar | Sequence | Mapping


class _Mark(Protocol):
    """A place as either of the two parsers gives it."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


def read_tree(text: str, source: str) -> Node | None:
    """Reads a YAML text.

    Args:
        text: The text; one document.
        source: What to call it in messages.

    Returns:
        Its root, or None if it holds nothing.

    Raises:
        ShardingError: It is no YAML, or more than the bounds of this module allow, or uses tags, merge keys, an
            unknown or recursive alias, or a key twice.
    """
    _check_text(text, source)
    builder = _Builder(source)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.add(event)
    except yaml.MarkedYAMLError as error:
        line, column = _spot(error.problem_mark or error.context_mark)
        problem = error.problem or error.context or "can't be read"
        raise ShardingError(f"not valid YAML: {problem}", source=source, line=line, column=column) from None
    except yaml.YAMLError as error:
        raise ShardingError(f"not valid YAML: {error}", source=source) from None
    return builder.root


def _check_text(text: str, source: str) -> None:
    # Looked for here, since the parsers count the position of a wrong character in different units.
    wrong = _YamlReader.NON_PRINTABLE.search(text)
    if wrong is not None:
        before = text[: wrong.start()]
        raise ShardingError(
            f"the character {wrong.group()!r} can't stand in YAML",
            source=source,
            line=before.count("\n") + 1,
            column=wrong.start() - before.rfind("\n"),
        )
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ShardingError(f"{size:,} bytes are too many", source=source, hint=f"at most {MAX_BYTES:,} are allowed")


def _spot(mark: _Mark | None) -> tuple[int, int]:
    """Line and column from 1, as editors count; 0 where the parser knows none."""
    return (0, 0) if mark is None else (mark.line + 1, mark.column + 1)


class _Builder:
    """Builds the tree from events."""

    def __init__(self, source: str) -> None:
        self.root: Node | None = None
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._unfinished: set[str] = set()
        self._nodes = 0

    def add(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._place(self._resolve(event), event)
        elif isinstance(event, yaml.NodeEvent):
            self._begin(event)
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            finished = self._open.pop()
            if finished.anchor is not None:
                self._unfinished.discard(finished.anchor)
                self._anchors[finished.anchor] = finished.node
            self._place(finished.node, finished.event)

    def _begin(self, event: yaml.NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self._error(event, f"tags such as {tag[:60]!r} are not allowed", "write the value without a tag")
        self._count(1, event)
        line, column = _spot(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            scalar = Scalar(line, column, event.value, plain=not event.style)
            if event.anchor is not None:
                self._anchors[event.anchor] = scalar
            self._place(scalar, event)
            return
        if len(self._open) >= MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
        node = Sequence(line, column) if isinstance(event, yaml.SequenceStartEvent) else Mapping(line, column)
        if event.anchor is not None:
            self._unfinished.add(event.anchor)
        self._open.append(_Open(node, event, event.anchor))

    def _resolve(self, event: yaml.AliasEvent) -> Node:
        name = str(event.anchor)
        if name in self._unfinished:
            raise self._error(event, f"the alias *{name[:60]} stands inside what it repeats")
        node = self._anchors.get(name)
        if node is None:
            raise self._error(event, f"the alias *{name[:60]} has no anchor before it", f"define &{name[:60]}")
        self._count(node.size, event)
        return node

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._error(event, f"more than {MAX_NODES:,} values, aliases written out")

    def _place(self, node: Node, event: yaml.Event) -> None:
        if not self._open:
            if self.root is not None:
                raise self._error(event, "a second document", "keep one document in the file")
            self.root = node
            return
        parent = self._open[-1]
        parent.node.size += node.size
        if isinstance(parent.node, Sequence):
            parent.node.items.append(node)
        elif parent.key is None:
            parent.key = self._key(node, event, parent)
        else:
            parent.node.items.append((parent.key, node))
            parent.key = None

    def _key(self, node: Node, event: yaml.Event, parent: _Open) -> Scalar:
        if not isinstance(node, Scalar):
            raise self._error(event, "a key must be a name, not a list or mapping")
        if node.plain and node.text == "<<":
            raise self._error(event, "merge keys are not supported", "write the keys out")
        first = parent.keys.setdefault(node.text, node.line)
        if len(parent.keys) == len(parent.node.items):
            raise self._error(event, f'"{node.text[:60]}" is here twice', f"the first is in line {first}")
        return node

    def _error(self, event: yaml.Event, message: str, hint: str | None = None) -> ShardingError:
        line, column = _spot(event.start_mark)
        return ShardingError(message, source=self._source, line=line, column=column, hint=hint)


@dataclass(eq=False)
class _Open:
    """A list or mapping whose end has not come yet.

    Attributes:
        node: It.
        event: The event that began it.
        anchor: Its anchor, or None.
        key: Key of a mapping whose value comes next.
        keys: Keys of a mapping, with their lines.
    """

    node: Sequence | Mapping
    event: yaml.Event
    anchor: str | None
    key: Scalar | None = None
    keys: dict[str, int] = field(default_factory=dict)
