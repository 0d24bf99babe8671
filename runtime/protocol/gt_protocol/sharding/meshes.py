"""Reads meshes and the placements on them."""

from __future__ import annotations

import math
import re
from typing import Final

from gt_protocol.blocks import MAX_DIMS
from gt_protocol.placements import Placement, Replicate, Shard
from gt_protocol.settings import MAX_WORKERS
from gt_protocol.sharding.model import MeshSpec, Weights
from gt_protocol.sharding.reader import Reader, describe, nearest, shown
from gt_protocol.sharding.tree import Mapping, Node, Scalar

MAX_MESHES: Final = 1024
MAX_MESH_DIMS: Final = 8

_SHARD: Final = re.compile(r"shard\(\s*([+-]?[0-9]{1,4})\s*\)")
_PLACEMENTS: Final = "write shard(n) or replicate"


def line_of(workers: tuple[int, ...]) -> MeshSpec:
    """The mesh of one dimension over some workers."""
    return MeshSpec(workers, (len(workers),), ("0",))


def read_meshes(reader: Reader, node: Node) -> dict[str, MeshSpec]:
    """Reads the `meshes` of a file, by name.

    Raises:
        ShardingError: One is wrong.
    """
    meshes: dict[str, MeshSpec] = {}

    def read(key: Scalar, value: Node) -> None:
        meshes[reader.string(key, "the name of a mesh")] = _read_mesh(reader, key, value)

    mapping = reader.mapping(node, "meshes", "{pair: {workers: [0, 1]}}")
    reader.each(mapping, read, "meshes", MAX_MESHES)
    return meshes


def _read_mesh(reader: Reader, key: Scalar, node: Node) -> MeshSpec:
    what = f'mesh "{shown(key.text)}"'
    entries = reader.keys(reader.mapping(node, what, "{workers: [0, 1]}"), ("workers", "shape"))
    if "workers" not in entries:
        raise reader.error(node, f"{what} names no workers", "add workers: [0, 1]")
    workers = reader.worker_list(entries["workers"][1])
    return _shaped(reader, what, workers, entries["shape"][1]) if "shape" in entries else line_of(workers)


def _shaped(reader: Reader, what: str, workers: tuple[int, ...], node: Node) -> MeshSpec:
    shape = reader.mapping(node, f"shape of {what}", "{dp: 2, tp: 2}")
    if not 1 <= len(shape.items) <= MAX_MESH_DIMS:
        raise reader.error(node, f"{what} has {len(shape.items)} dimensions", f"give it 1 to {MAX_MESH_DIMS}")
    names = tuple(reader.string(key, "the name of a mesh dimension") for key, _ in shape.items)
    for (key, _), name in zip(shape.items, names, strict=True):
        if name.isdecimal():
            raise reader.error(key, f'a mesh dimension can\'t be called "{shown(name)}"', "use a name such as dp")
    sizes = tuple(reader.integer(value, f"size of {key.text!r}", 1, MAX_WORKERS) for key, value in shape.items)
    if math.prod(sizes) != len(workers):
        product = " x ".join(map(str, sizes))
        raise reader.error(
            node,
            f"the shape of {what} is {product} = {math.prod(sizes)}, but it has {len(workers)} workers",
            "the sizes must multiply to the number of workers",
        )
    return MeshSpec(workers, sizes, names)


def read_place(reader: Reader, mesh: MeshSpec, node: Node) -> tuple[Placement, ...]:
    """Reads the `place` of a rule: a placement for each dimension; those not named replicate.

    Raises:
        ShardingError: It names a dimension that the mesh has not, or no placement.
    """
    placements: list[Placement] = [Replicate()] * len(mesh.shape)
    named: dict[int, Scalar] = {}
    for key, value in reader.mapping(node, "place", "{0: shard(0)}").items:
        dim = _dimension(reader, mesh, key)
        if dim in named:
            raise reader.error(key, f"mesh dimension {mesh.dim_names[dim]} is placed twice", "name each one once")
        named[dim] = key
        placements[dim] = _read_placement(reader, value)
    return tuple(placements)


def _dimension(reader: Reader, mesh: MeshSpec, key: Scalar) -> int:
    if key.text in mesh.dim_names:
        return mesh.dim_names.index(key.text)
    if key.text.isascii() and key.text.isdecimal() and len(key.text) <= 2 and int(key.text) < len(mesh.shape):
        return int(key.text)
    hint = nearest(key.text, mesh.dim_names, "its dimensions")
    raise reader.error(key, f'the mesh has no dimension "{shown(key.text)}"', hint)


def _read_placement(reader: Reader, node: Node) -> Placement:
    if isinstance(node, Mapping) or not isinstance(node, Scalar):
        raise reader.error(node, f"a placement can't be {describe(node)}", _PLACEMENTS)
    text = node.text.strip()
    if text == "replicate":
        return Replicate()
    match = _SHARD.fullmatch(text)
    if match is not None:
        return Shard(check_axis(reader, node, int(match.group(1))))
    if text.lower().startswith("partial"):
        raise reader.error(node, "partial sums are only ever a result, they can't be asked for", _PLACEMENTS)
    raise reader.error(node, f"{describe(node)} is no placement", _PLACEMENTS)


def check_axis(reader: Reader, node: Node, axis: int) -> int:
    """An axis that some tensor could have.

    Raises:
        ShardingError: None has.
    """
    if not -MAX_DIMS <= axis < MAX_DIMS:
        raise reader.error(node, f"no tensor has an axis {axis}", "negative axes count from the end, from -1")
    return axis


def read_weights(reader: Reader, mesh: MeshSpec, placements: tuple[Placement, ...] | None, node: Node) -> Weights:
    """Reads the `weights` of a rule: a list with a number for each part, or `auto`.

    Raises:
        ShardingError: They are no such list, or there is not exactly one sharded mesh dimension for them.
    """
    sharded = [dim for dim, placement in enumerate(placements or ()) if isinstance(placement, Shard)]
    if len(sharded) != 1:
        count = "none" if not sharded else str(len(sharded))
        raise reader.error(
            node, f"weights need exactly one sharded mesh dimension, and here is {count}", "see place: {0: shard(0)}"
        )
    if isinstance(node, Scalar) and node.text == "auto":
        return "auto"
    weights = tuple(reader.weight(item) for item in reader.items(node, "weights", "[3, 1], or auto"))
    parts = mesh.shape[sharded[0]] if mesh.workers else len(weights)
    if len(weights) != parts:
        raise reader.error(node, f"{len(weights)} weights for {parts} parts", "give one for each part")
    return weights
