"""Reads the rules of signals, in the long, the short and the bare form."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from typing import Final

from gt_protocol.blocks import MAX_SIGNAL_LENGTH
from gt_protocol.placements import Placement, Replicate, Shard
from gt_protocol.sharding.meshes import check_axis, line_of, read_place, read_weights
from gt_protocol.sharding.model import MeshSpec, SignalRule
from gt_protocol.sharding.reader import Reader, is_null, nearest, shown
from gt_protocol.sharding.tree import Node, Scalar

MAX_SIGNALS: Final = 4096

#: Keys of a rule, and of a rule in the bare form at the top level of a file.
LONG_KEYS: Final = ("mesh", "workers", "place", "weights", "shard", "backward", "compile")
BARE_KEYS: Final = ("shard", "backward", "compile")

_EXAMPLE: Final = "{mesh: NAME, place: {0: shard(0)}}"

Entries = dict[str, tuple[Scalar, Node]]


@dataclass(frozen=True)
class _Whereabouts:
    """Where a rule puts its tensors."""

    mesh: MeshSpec | None = None
    placements: tuple[Placement, ...] | None = None


def read_rule(
    reader: Reader, key: Scalar, node: Node, meshes: AbstractMapping[str, MeshSpec], known: tuple[str, ...]
) -> SignalRule:
    """Reads one rule.

    Args:
        reader: Reads the file.
        key: Name of the signal.
        node: What stands beside it.
        meshes: The file's meshes.
        known: Keys that the rule may have.

    Raises:
        ShardingError: The rule is wrong.
    """
    name = reader.string(key, "the name of a signal")
    if len(name.encode()) > MAX_SIGNAL_LENGTH:
        raise reader.error(key, f'the signal "{shown(name)}" has a longer name than {MAX_SIGNAL_LENGTH} bytes')
    reader = reader.of_signal(name)
    example = _EXAMPLE if "mesh" in known else "{shard: {axis: 0, workers: [0, 1]}}"
    if is_null(node):
        raise reader.error(key, "says nothing", f"give it a rule, such as {example}, or remove it")
    entries = reader.keys(reader.mapping(node, "a rule", example), known)
    if not entries:
        raise reader.error(node, "says nothing", f"give it a rule, such as {example}, or remove it")
    where = _read_shard(reader, entries) if "shard" in entries else _read_mesh(reader, entries, meshes)
    weights = None
    if "weights" in entries:
        mesh = where.mesh or line_of(())
        weights = read_weights(reader, mesh, where.placements, entries["weights"][1])
    return SignalRule(
        name=name,
        mesh=where.mesh,
        placements=where.placements,
        weights=weights,
        backward=_read_backward(reader, entries),
        compile=reader.boolean(entries["compile"][1], "compile") if "compile" in entries else False,
        line=key.line,
    )


def _read_mesh(reader: Reader, entries: Entries, meshes: AbstractMapping[str, MeshSpec]) -> _Whereabouts:
    """The long form: `mesh` or `workers`, and perhaps `place`."""
    if "mesh" in entries and "workers" in entries:
        raise reader.error(entries["workers"][0], "both mesh and workers", "keep one of them")
    mesh: MeshSpec | None = None
    if "mesh" in entries:
        node = entries["mesh"][1]
        name = reader.string(node, "mesh")
        if name not in meshes:
            hint = nearest(name, meshes, "defined are") or "define it under meshes, or use workers: [0, 1]"
            raise reader.error(node, f'the mesh "{shown(name)}" isn\'t defined', hint)
        mesh = meshes[name]
    elif "workers" in entries:
        mesh = line_of(reader.worker_list(entries["workers"][1]))
    if "place" not in entries:
        return _Whereabouts(mesh)
    if mesh is None:
        raise reader.error(entries["place"][0], "place without a mesh", "add mesh: NAME or workers: [0, 1]")
    return _Whereabouts(mesh, read_place(reader, mesh, entries["place"][1]))


def _read_shard(reader: Reader, entries: Entries) -> _Whereabouts:
    """The short form: `shard: {axis, workers, replicated}` on a mesh of one dimension."""
    for other in ("mesh", "workers", "place"):
        if other in entries:
            raise reader.error(entries[other][0], f"both shard and {other}", "keep one of them")
    node = reader.mapping(entries["shard"][1], "shard", "{axis: 0, workers: [0, 1]}")
    inner = reader.keys(node, ("axis", "workers", "replicated"))
    axis = 0
    if "axis" in inner:
        axis_node = inner["axis"][1]
        axis = check_axis(reader, axis_node, reader.integer(axis_node, "axis", -(10**9), 10**9))
    if "workers" in inner and not is_null(inner["workers"][1]):
        workers = reader.worker_list(inner["workers"][1])
    elif reader.workers == 0:
        raise reader.error(node, "all workers are meant, and the cluster has none")
    else:
        # Without workers it means all of them, as in the original GT.
        workers = tuple(range(reader.workers or 0))
    replicated = "replicated" in inner and reader.boolean(inner["replicated"][1], "replicated")
    return _Whereabouts(line_of(workers), (Replicate() if replicated else Shard(axis),))


def _read_backward(reader: Reader, entries: Entries) -> str | None:
    if "backward" not in entries:
        return None
    node = entries["backward"][1]
    name = reader.string(node, "backward")
    if len(name.encode()) > MAX_SIGNAL_LENGTH:
        raise reader.error(node, f"the name of a signal has at most {MAX_SIGNAL_LENGTH} bytes")
    return name
