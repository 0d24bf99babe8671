"""What to do with a call that the cache does not know."""

from __future__ import annotations

from typing import Any, Final

import torch

from gt._torch import DEVICE_TYPE, decomposition, is_composite
from gt.calls import DefaultDtype, Reshaped, compile_call
from gt.detours import (
    again,
    ask_metadata,
    decline,
    decompose,
    is_unknown_type,
    make_elsewhere,
    materialize,
    reshape_in_place,
    run_decomposition,
    spell_out_dtype,
    tensors_in,
)
from gt.errors import UnsupportedError
from gt.fallbacks import is_complex_scalar, run_on_cpu, upload_complex
from gt.specials import Handler, specials
from gt.tensor import FleetTensor
from gt_protocol.operators import operator_table

#: Calls to remember of one operator; more begin anew.
MAX_ENTRIES: Final = 1 << 14

_DATA_DEPENDENT: Final = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)


def open_cache(func: Any) -> Any:
    """The cache of an operator that is seen for the first time, or the function that carries it out."""
    handler = specials.get(func)
    if handler is None and any(tag in func.tags for tag in _DATA_DEPENDENT):
        handler = run_on_cpu
    return handler or {}


def resolve(func: Any, cache: dict[Any, Any], key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Finds out how to carry out a call, and remembers it.

    Returns:
        The record to emit, or a function to call instead.
    """
    tensors = list(tensors_in([*args, *kwargs.values()]))
    if any(is_unknown_type(tensor) for tensor in tensors):
        return decline
    pristine = [tensor for tensor in tensors if type(tensor) is FleetTensor and tensor._h.meta.pristine]
    if pristine:
        for tensor in pristine:
            materialize(tensor._h)
        return again
    if any(map(is_complex_scalar, tensors)):
        return upload_complex  # not remembered: the key is that of any tensor which is not on the fleet
    entry = _find(func, args, kwargs)
    if len(cache) >= MAX_ENTRIES:
        cache.clear()
    cache[key] = entry
    return entry


def _find(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operator = operator_table().get(func.name())
    if operator is None:
        return _substitute(func)
    if torch.Tag.inplace_view in func.tags:
        return reshape_in_place
    device = kwargs.get("device")
    if device is not None and device.type != DEVICE_TYPE:
        return make_elsewhere
    try:
        return compile_call(func, operator, args, kwargs)
    except Reshaped:
        return reshape_in_place
    except DefaultDtype:
        return spell_out_dtype
    except NotImplementedError:
        return _substitute(func)


def _substitute(func: Any) -> Handler:
    """Another way to carry out an operator that no instruction can name, or whose result is not known beforehand."""
    if is_composite(func):
        return decompose
    if decomposition(func) is not None:
        return run_decomposition
    if all(str(result.type) in ("int", "bool", "SymInt") for result in func._schema.returns):
        return ask_metadata
    raise UnsupportedError(
        f"the fleet has no operator {func.name()}: compute it on the CPU (x.cpu()), or write it with other operators"
    )
