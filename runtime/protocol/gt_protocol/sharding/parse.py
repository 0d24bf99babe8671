"""Reads a sharding file as a whole."""

from __future__ import annotations

from typing import Final

from gt_protocol.sharding.meshes import read_meshes
from gt_protocol.sharding.model import MeshSpec, ShardingConfig, SignalRule
from gt_protocol.sharding.reader import Reader, is_null
from gt_protocol.sharding.signals import BARE_KEYS, LONG_KEYS, MAX_SIGNALS, read_rule
from gt_protocol.sharding.tree import Mapping, Node, Scalar, read_tree

VERSION: Final = 1

_TOP_KEYS: Final = ("version", "meshes", "signals")


def parse_sharding(text: str, *, source: str = "<string>", workers: int | None = None) -> ShardingConfig:
    """Reads and checks a sharding file.

    Args:
        text: Its text.
        source: What to call it in messages, such as its path.
        workers: Number of workers that are there, so that rules on others are refused; None if that isn't known.

    Returns:
        Its rules. A file with nothing in it has none.

    Raises:
        ShardingError: The file is wrong; the error names line, column, signal and what to do.
    """
    root = read_tree(text, source)
    if root is None or is_null(root):
        return ShardingConfig(source=source)
    reader = Reader(source, workers)
    top = reader.mapping(root, "a sharding file", "{version: 1, signals: {NAME: {workers: [0, 1]}}}")
    if not any(key.text in _TOP_KEYS for key, _ in top.items):
        return ShardingConfig(_read_rules(reader, top, {}, BARE_KEYS), source)
    entries = reader.keys(top, _TOP_KEYS)
    if "version" in entries:
        _check_version(reader, entries["version"][1])
    meshes: dict[str, MeshSpec] = {}
    if "meshes" in entries and not is_null(entries["meshes"][1]):
        meshes = read_meshes(reader, entries["meshes"][1])
    if "signals" not in entries or is_null(entries["signals"][1]):
        return ShardingConfig(source=source)
    signals = reader.mapping(entries["signals"][1], "signals", "{NAME: {workers: [0, 1]}}")
    return ShardingConfig(_read_rules(reader, signals, meshes, LONG_KEYS), source)


def _check_version(reader: Reader, node: Node) -> None:
    version = reader.integer(node, "version", 0, 10**9)
    if version != VERSION:
        raise reader.error(node, f"version {version} isn't known here", f"this release reads version {VERSION}")


def _read_rules(
    reader: Reader, node: Mapping, meshes: dict[str, MeshSpec], known: tuple[str, ...]
) -> tuple[SignalRule, ...]:
    rules: list[SignalRule] = []

    def read(key: Scalar, value: Node) -> None:
        rules.append(read_rule(reader, key, value, meshes, known))

    reader.each(node, read, "signals", MAX_SIGNALS)
    return tuple(rules)
