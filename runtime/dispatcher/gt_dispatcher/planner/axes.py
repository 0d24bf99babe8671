"""Rules by named axes, as in Einstein's notation.

A rule names the axes of operands and results. Splitting along a name splits every tensor that has an axis of that name;
a result that is a sum over the name becomes a partial sum. Of all names, the one is chosen for which the fewest bytes
of the operands move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.shards import byte_size, has_empty_shard
from gt_dispatcher.planner.strategy import LocalArgument, Strategy
from gt_protocol.placements import Partial, Placement, Replicate, Shard

#: The name of each axis of a tensor; an empty name says that the axis can't be split.
Names: TypeAlias = tuple[str, ...]

#: No choice at all: the operator would write to a copy, or a worker would have nothing where it must have something.
IMPOSSIBLE = float("inf")


@dataclass(frozen=True)
class Result:
    """A new tensor of a rule.

    Attributes:
        names: The names of its axes.
        sums: The names that it is a sum over. On any other name that it has no axis of, it must not depend.
    """

    names: Names
    sums: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Axes:
    """The named axes of an instruction.

    Attributes:
        inputs: Names of the axes of each operand.
        results: The new tensors.
        added: Operands that are added to the result, and so are a part of the sum on one worker only.
        solid: Names along which no worker may have an empty part.
        local: For a name that is split along, arguments that differ on the workers.
    """

    inputs: tuple[Names, ...]
    results: tuple[Result, ...]
    added: frozenset[int] = frozenset()
    solid: frozenset[str] = frozenset()
    local: Callable[[str], Mapping[int, LocalArgument]] | None = None


def by_axes(instruction: Instruction, axes: Axes) -> Strategy:
    """The strategy that splits along the best name.

    Raises:
        NoRule: No name will do, or to gather everything is cheapest.
    """
    best: tuple[float, str] | None = None
    for name in _names(axes):
        price = _price(instruction, axes, name)
        if price < (IMPOSSIBLE if best is None else best[0]):
            best = price, name
    gathered = sum(
        cost_of_change(place, Replicate(), byte_size(meta), instruction.mesh.size)
        for place, meta in zip(instruction.places, instruction.metas, strict=True)
    )
    if best is None or best[0] > gathered:
        raise NoRule("none of its axes can be split")
    name = best[1]
    outputs = tuple(_result_place(result, name) for result in axes.results)
    local = axes.local(name) if axes.local is not None else {}
    return Strategy(_input_places(axes, name), outputs, local)


def labelled(rank: int, prefix: str = "a", without: Sequence[int] = ()) -> Names:
    """A name for each axis of a tensor, without those of the axes that can't be split."""
    excluded = {axis % rank for axis in without} if rank else set()
    return tuple("" if axis in excluded else f"{prefix}{axis}" for axis in range(rank))


def cost_of_change(place: Placement, wanted: Placement, size: int, parts: int) -> float:
    """Bytes that each worker receives when a tensor changes its placement."""
    if place == wanted or isinstance(place, Replicate):
        return 0.0
    if isinstance(place, Partial):
        return 2.0 * size
    return size / parts if isinstance(wanted, Shard) else float(size)


def _names(axes: Axes) -> Iterator[str]:
    seen: set[str] = {""}
    for names in axes.inputs:
        for name in names:
            if name not in seen:
                seen.add(name)
                yield name


def _price(instruction: Instruction, axes: Axes, name: str) -> float:
    price = 0.0
    for operand, wanted in enumerate(_input_places(axes, name)):
        place, meta = instruction.places[operand], instruction.metas[operand]
        if place != wanted and operand in instruction.writes:
            return IMPOSSIBLE
        if name in axes.solid and has_empty_shard(meta.shape, instruction.mesh, (wanted,)):
            return IMPOSSIBLE
        price += cost_of_change(place, wanted, byte_size(meta), instruction.mesh.size)
    return price


def _input_places(axes: Axes, name: str) -> tuple[Placement, ...]:
    summed = any(name in result.sums for result in axes.results)
    places: list[Placement] = []
    for operand, names in enumerate(axes.inputs):
        if name in names:
            places.append(Shard(names.index(name)))
        else:
            places.append(Partial("sum") if summed and operand in axes.added else Replicate())
    return tuple(places)


def _result_place(result: Result, name: str) -> Placement:
    if name in result.names:
        return Shard(result.names.index(name))
    return Partial("sum") if name in result.sums else Replicate()
