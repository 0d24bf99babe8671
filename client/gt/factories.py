"""Tensors that are made on the fleet, without others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from gt._torch import get_overload, register_kernel
from gt.errors import UnsupportedError
from gt.metadata import FLEET, metas
from gt.tensor import FleetTensor, wrap_pristine
from gt.transfers import copy_into
from gt_protocol.operators import operator_table

#: Factories that become one instruction; all others are made of these by PyTorch.
_FACTORIES: Final = (
    "ones", "zeros", "full", "scalar_tensor",
    "arange", "arange.start", "arange.start_step", "linspace", "logspace", "range", "range.step",
    "eye", "eye.m", "tril_indices", "triu_indices",
    "rand", "randn", "randint", "randint.low", "randperm", "normal.float_float",
    "bartlett_window", "blackman_window", "hann_window", "hamming_window",
)  # fmt: skip


def register_factories() -> None:
    """Registers all factories as kernels of the device."""
    register_kernel("empty.memory_format", _empty)
    register_kernel("empty_strided", _empty_strided)
    # PyTorch calls this one, below everything else, where it makes tensors from Python values.
    register_kernel("_copy_from", _copy_from)
    for name in _FACTORIES:
        func = get_overload(name)
        if func is not None and operator_table().get(func.name()) is not None:
            register_kernel(name, _factory(func))


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return copy_into(target, source)


def _factory(func: Any) -> Callable[..., FleetTensor]:
    cache: dict[Any, Any] = {}
    names = [argument.name for argument in func._schema.arguments if argument.kwarg_only]
    takes_dtype = "dtype" in names

    def make(*args: Any, dtype: torch.dtype | None = None, device: Any = None, **options: Any) -> FleetTensor:
        from gt.dispatch import run  # the hot path needs this module to load

        kwargs: dict[str, Any] = {"device": _check(device, options)}
        if dtype is not None and takes_dtype:
            kwargs["dtype"] = dtype
        made: FleetTensor = run(func, cache, args, kwargs)
        return made

    return make


def _check(device: Any, options: dict[str, Any]) -> torch.device:
    """Checks the options that all factories take."""
    if device is not None and device.index not in (None, 0):
        raise RuntimeError(f"invalid device {device}: there is one fleet, of index 0")
    if options.get("pin_memory"):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if options.get("layout") not in (None, torch.strided):
        raise UnsupportedError(f"tensors of layout {options['layout']} can't be on the fleet; use dense ones")
    if options.get("generator") is not None:
        raise UnsupportedError(
            "the fleet has no generators of its own: seed it with torch.manual_seed, and leave out `generator`"
        )
    return FLEET


def _empty(size: Any, *, dtype: torch.dtype | None = None, memory_format: Any = None, **options: Any) -> FleetTensor:
    _check(options.pop("device", None), options)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    model = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    return wrap_pristine(metas.pristine(metas.of(model)))


def _empty_strided(size: Any, stride: Any, *, dtype: torch.dtype | None = None, **options: Any) -> FleetTensor:
    _check(options.pop("device", None), options)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return wrap_pristine(metas.pristine(metas.get(tuple(size), tuple(stride), 0, dtype)))
