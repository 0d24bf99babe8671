"""Bytes to the fleet and back."""

from __future__ import annotations

import time
from typing import Any, Final, cast

import torch

from gt._torch import DEVICE_TYPE
from gt.blocks import builder
from gt.blocks.handles import Handle
from gt.detours import materialize
from gt.errors import UnsupportedError
from gt.metadata import DTYPE_NAMES, DTYPES, Meta, metas
from gt.session_api import Fetched, current_session
from gt.sources import here
from gt.specials import special
from gt.tensor import FleetTensor, wrap
from gt.waits import waits
from gt_protocol.blocks import MAX_DIMS

_COPY: Final = torch.ops.aten.copy_.default
_copies: Final[dict[Any, Any]] = {}
_conversions: Final[dict[Any, Any]] = {}


def upload(tensor: torch.Tensor) -> FleetTensor:
    """A copy of a CPU tensor on the fleet, with its strides if they are dense.

    Raises:
        UnsupportedError: Tensors of this kind can't be on the fleet.
    """
    source = tensor.detach()
    meta = metas.of(torch.empty_like(_check_source(source), device="meta"))
    handle = Handle(meta)
    _send(handle, meta, source)
    return wrap(handle)


def fetch(tensor: FleetTensor) -> torch.Tensor:
    """A copy of a tensor of the fleet on the CPU; waits for its value.

    Raises:
        RemoteError: It has no value, since an instruction failed.
        GTTimeoutError: It did not come in time.
    """
    handle = tensor._h
    if handle.meta.pristine:
        materialize(handle)
    meta = handle.meta
    begun = time.perf_counter()
    fetched = current_session().fetch(lambda request: builder.read(request, handle.id))
    waits.add(here(), time.perf_counter() - begun)
    value = _assemble(fetched, meta)
    if meta.copies_in_order:
        return value
    return torch.empty_strided(meta.shape, meta.copy_strides, dtype=meta.dtype, device="cpu").copy_(value)


def _check_source(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise UnsupportedError(
            f"a {tensor.layout} tensor of {tensor.dtype} can't be on the fleet: make it dense, of a plain numeric type"
        )
    if tensor.dim() > MAX_DIMS:
        raise UnsupportedError(f"a tensor on the fleet has at most {MAX_DIMS} dimensions, not {tensor.dim()}")
    if tensor.device.type != "cpu":
        raise UnsupportedError(f"tensors move to the fleet from the CPU, not from {tensor.device}: call .cpu() first")
    return tensor


def _send(handle: Handle, meta: Meta, source: torch.Tensor) -> None:
    """Copies once, since the program may change `source` as soon as this returns."""
    size = source.numel() * meta.dtype.itemsize
    data = bytearray(size)
    if size:
        torch.frombuffer(data, dtype=meta.dtype).view(source.shape).copy_(source)
    builder.upload(handle, meta.wire, memoryview(data))


def _assemble(value: Fetched, meta: Meta) -> torch.Tensor:
    """Puts a value's parts together, in row-major order."""
    dtype = DTYPES[value.dtype]
    parts: list[torch.Tensor] = []
    for shape, frames in value.parts:
        data = bytearray().join(frames)
        part = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype, device="cpu")
        parts.append(part.view(shape))
    whole = parts[0] if len(parts) == 1 else torch.cat(parts, value.axis)
    return whole if len(parts) == 1 and value.parts[0][0] == meta.shape else whole.reshape(meta.shape)


@special("_local_scalar_dense")
def _read_item(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fetch(args[0]).item()


@special("_to_copy")
def _convert(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`x.to(...)`: within the fleet an instruction, to any other device a read."""
    from gt.dispatch import run  # the hot path needs this module to load

    source, device = args[0], kwargs.get("device")
    options = {name: value for name, value in kwargs.items() if value is not None and name != "device"}
    options.pop("non_blocking", None)
    if device is None or device.type == DEVICE_TYPE:
        options.pop("pin_memory", None)
        return run(func, _conversions, (source,), options)
    value = fetch(source)
    if device.type == "cpu":
        if options.get("memory_format") is torch.preserve_format:
            del options["memory_format"]
        if options.get("dtype") is value.dtype:
            del options["dtype"]
        if not options:
            return value
    return func(value, device=device, **options)


@special("copy_")
def _copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`target.copy_(source)`, in whichever direction."""
    return copy_into(args[0], args[1])


def copy_into(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Writes a tensor's values into another one, of which at least one is on the fleet."""
    from gt.dispatch import run  # the hot path needs this module to load

    if type(target) is not FleetTensor:
        return target.copy_(fetch(cast(FleetTensor, source)))
    if type(source) is FleetTensor:
        return cast(torch.Tensor, run(_COPY, _copies, (target, source), None))
    handle = target._h
    meta = handle.meta.twin
    if handle.meta.pristine and meta is not None:
        _send(handle, meta, _check_source(source).detach().expand(target.shape))
        handle.meta = meta
        return target
    return cast(torch.Tensor, run(_COPY, _copies, (target, upload(source)), None))
