"""Asks PyTorch's DTensor how operators without a rule of the planner's own can be split. The only use of torch here.

DTensor proposes, and the proposal is checked: it was made for another system, and some of it is silently wrong. Only
operators whose proposals were run, on every axis, against the whole (`tests/integration/test_planner_propagation.py`)
are asked about at all. No process group is formed and nothing is allocated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import placement_types as theirs
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._dtensor_spec import TensorMeta as TheirMeta
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.utils._pytree import tree_leaves

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.shards import has_empty_shard
from gt_dispatcher.planner.strategy import Strategy
from gt_protocol.arguments import (
    Argument,
    ComplexConst,
    Const,
    DeviceArg,
    DtypeArg,
    FloatConst,
    LayoutArg,
    ListArg,
    MemoryFormatArg,
    Operand,
)
from gt_protocol.blocks import Call, TensorMeta
from gt_protocol.placements import Partial, Placement, Replicate, Shard

#: Stands for floats, which are not part of an instruction and so can't decide how it is split.
ANY_FLOAT: Final = 0.5

#: Proposals that are remembered. Callers keep whole plans; this only spares the same question about other workers.
MEMORY: Final = 2048


def propose(instruction: Instruction) -> Strategy:
    """The strategy that DTensor proposes, if it stands up to the checks.

    Raises:
        NoRule: There is none, or it does not.
    """
    inputs, outputs = _proposal(
        instruction.call, instruction.name, instruction.metas, instruction.places, instruction.mesh.size
    )
    mesh = Mesh(tuple(range(instruction.mesh.size)), (instruction.mesh.size,))
    for meta, place in zip(instruction.metas, inputs, strict=True):
        if has_empty_shard(meta.shape, mesh, (place,)):
            raise NoRule("DTensor's proposal would leave a worker without elements")
    for operand in instruction.writes:
        if inputs[operand] != instruction.places[operand]:
            raise NoRule("DTensor's proposal moves what is written to")
    if len(outputs) != len(instruction.new):
        raise NoRule("DTensor's proposal has another number of results")
    if all(isinstance(place, Replicate) for place in inputs):
        raise NoRule("DTensor gathers its operands as well")
    return Strategy(inputs, outputs)


@lru_cache(MEMORY)
def _proposal(
    call: Call, name: str, metas: tuple[TensorMeta, ...], places: tuple[Placement, ...], size: int
) -> tuple[tuple[Placement, ...], tuple[Placement, ...]]:
    """Placements of operands and results.

    Raises:
        NoRule: DTensor has no proposal, or one that is not understood.
    """
    mesh = _device_mesh(size)
    specs = [_spec(mesh, meta, place) for meta, place in zip(metas, places, strict=True)]
    op = _overload(name)
    args = tuple(_argument(argument, specs) for argument in call.args)
    kwargs = {key: _argument(argument, specs) for key, argument in call.kwargs}
    sharding = _ask(op, args, kwargs)
    schema = sharding.redistribute_schema if sharding.needs_redistribute else None
    if schema is not None:
        if schema.op != op:
            raise NoRule("DTensor proposes another operator")
        if any(isinstance(leaf, DTensorSpec) for leaf in tree_leaves(kwargs)):
            raise NoRule("DTensor does not move keyword arguments")
        proposed = [leaf for leaf in tree_leaves(schema.args_schema) if isinstance(leaf, DTensorSpec)]
    else:
        proposed = specs
    if len(proposed) != len(specs):
        raise NoRule("DTensor's proposal has another number of operands")
    return tuple(_ours(spec) for spec in proposed), tuple(_ours(spec) for spec in _results(sharding))


def _ask(op: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> OutputSharding:
    propagator = DTensor._op_dispatcher.sharding_propagator
    if op in propagator.op_to_shape_and_stride_idx:
        raise NoRule("DTensor's proposal would need other sizes on each worker")
    # Without this, proposals are remembered as if sizes and axes did not matter.
    info = propagator.op_to_schema_info.get(op) or propagator.op_to_schema_info_for_single_dim_strategy.get(op)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = propagator.propagate_op_sharding_non_cached(OpSchema(op, args, kwargs, schema_info=info))
    except Exception as error:
        # Its rules raise whatever they run into; whichever it is, there is no proposal.
        raise NoRule(f"DTensor has no proposal ({type(error).__name__})") from None
    if not isinstance(answer, OutputSharding):
        raise NoRule("DTensor has no proposal")
    return answer


def _results(sharding: OutputSharding) -> Iterator[DTensorSpec]:
    """The results that are tensors."""
    for spec in tree_leaves(sharding.output_spec):
        if isinstance(spec, DTensorSpec):
            yield spec


@lru_cache(64)
def _device_mesh(size: int) -> DeviceMesh:
    """A mesh of workers 0, 1, ...: proposals depend on their number alone."""
    return DeviceMesh("cpu", list(range(size)), _init_backend=False, _rank=0)


def _spec(mesh: DeviceMesh, meta: TensorMeta, place: Placement) -> DTensorSpec:
    placement: theirs.Placement = theirs.Replicate()
    if isinstance(place, Shard):
        placement = theirs.Shard(place.axis)
    elif isinstance(place, Partial):
        placement = theirs.Partial(place.reduce_op)
    their_meta = TheirMeta(torch.Size(meta.shape), meta.strides, getattr(torch, meta.dtype))
    return DTensorSpec(mesh, (placement,), tensor_meta=their_meta)


def _ours(spec: DTensorSpec) -> Placement:
    """A placement as the planner knows it.

    Raises:
        NoRule: The planner knows no such placement: a mask, a strided shard, or a mean, which uneven parts falsify.
    """
    (place,) = spec.placements
    if type(place) is theirs.Replicate:
        return Replicate()
    if type(place) is theirs.Shard:
        return Shard(place.dim)
    if type(place) is theirs.Partial and place.reduce_op == "sum":
        return Partial("sum")
    raise NoRule(f"DTensor proposes {place}")


@lru_cache(MEMORY)
def _overload(name: str) -> torch._ops.OpOverload:
    base, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(getattr(torch.ops.aten, base), overload or "default")
    assert isinstance(found, torch._ops.OpOverload)
    return found


def _argument(argument: Argument, specs: list[DTensorSpec]) -> object:
    if isinstance(argument, Operand):
        return specs[argument.index]
    if isinstance(argument, ListArg):
        return [_argument(item, specs) for item in argument.items]
    if isinstance(argument, Const | FloatConst):
        return argument.value
    if isinstance(argument, DtypeArg | MemoryFormatArg | LayoutArg):
        return getattr(torch, argument.name)
    if isinstance(argument, DeviceArg):
        return torch.device("cpu")
    if isinstance(argument, ComplexConst):
        return complex(argument.real, argument.imag)
    return ANY_FLOAT
