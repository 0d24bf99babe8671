"""The hot path: every operator on tensors of the fleet comes through here.

A call is known by its key: the metadata of each tensor, each constant, and the default element type, but no floats.
A key that was seen before leads to a record, and the record is emitted; nothing else happens.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from gt._torch import make_wrapper
from gt.blocks import builder
from gt.blocks.handles import Handle
from gt.keys import CONSTANT_TYPES, FALSE, FLOAT, TRUE, key_of
from gt.records import Many, New, Record, Same
from gt.resolve import open_cache, resolve
from gt.sources import here
from gt.tensor import FleetTensor, wrap

_emit: Final = builder.emit
_default_dtype: Final = torch.get_default_dtype


def dispatch(func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Carries out one operator.

    Args:
        func: The ATen overload.
        types: Types of tensors among the arguments; not needed.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """
    try:
        cache = func._gt_cache
    except AttributeError:
        cache = func._gt_cache = open_cache(func)
    if type(cache) is dict:
        return run(func, cache, args, kwargs)
    return cache(func, args, kwargs or {})


def run(func: Any, cache: dict[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """Carries out an operator through its cache."""
    operands: list[FleetTensor] = []
    floats: list[float] = []
    ints: list[int] = []
    parts: list[Any] = [_default_dtype()]
    for value in args:
        kind = type(value)
        if kind is FleetTensor:
            operands.append(value)
            parts.append(value._h.meta)
        elif kind is float:
            floats.append(value)
            parts.append(FLOAT)
        elif kind in CONSTANT_TYPES:
            parts.append(value)
        elif kind is bool:
            parts.append(TRUE if value else FALSE)
        else:
            parts.append(key_of(value, operands, floats, ints))
    if kwargs:
        for name in sorted(kwargs):
            parts += (name, key_of(kwargs[name], operands, floats, ints))
    key = tuple(parts)
    entry = cache.get(key)
    if entry is None:
        entry = resolve(func, cache, key, args, kwargs or {})
    if type(entry) is not Record:
        return entry(func, args, kwargs or {})
    meta = entry.single
    if meta is None:
        return _finish(entry, operands, floats, ints)
    handle = Handle(meta)
    _emit(entry, operands, floats, ints, handle, here())
    tensor = make_wrapper(FleetTensor, *meta.wrapper)
    tensor._h = handle
    return tensor


def _finish(record: Record, operands: list[FleetTensor], floats: list[float], ints: list[int]) -> Any:
    """Emits a record that makes no tensor, or several, and builds its result."""
    handles = [Handle(meta) for meta in record.metas]
    if record.emits:
        first = _emit(record, operands, floats, ints, None, here())
        for offset, handle in enumerate(handles):
            handle.id = first + offset
    if record.target >= 0:
        return operands[record.target]
    handles.reverse()
    return _build(record.result, operands, handles)


def _build(result: Any, operands: list[FleetTensor], handles: list[Handle]) -> Any:
    """Builds an operator's result; `handles` are those of its new tensors, last first, and are taken off."""
    kind = type(result)
    if kind is New:
        return wrap(handles.pop())
    if kind is Same:
        operand = operands[result.operand]
        return wrap(operand._h) if result.fresh else operand
    if kind is Many:
        return result.kind(_build(item, operands, handles) for item in result.items)
    return result.value


FleetTensor.__torch_dispatch__ = staticmethod(dispatch)
