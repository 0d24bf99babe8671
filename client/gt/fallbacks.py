"""Operators whose result's shape depends on values: they run in the client, on the CPU."""

from __future__ import annotations

from typing import Any, Final

import torch

from gt.specials import special
from gt.tensor import FleetTensor
from gt.transfers import fetch, upload

_indexings: Final[dict[str, dict[Any, Any]]] = {}
_MASKS: Final = (torch.bool, torch.uint8)


@special("_linalg_check_errors")
def run_on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reads the tensors, runs the operator on the CPU, and sends the results back."""
    return _to_fleet(func(*_to_cpu(args), **{name: _to_cpu(value) for name, value in kwargs.items()}))


def upload_complex(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Sends the complex numbers among the tensors of the CPU; real ones travel within the instruction."""
    return func(*_complex_to_fleet(args), **{name: _complex_to_fleet(value) for name, value in kwargs.items()})


def _complex_to_fleet(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_complex_to_fleet(item) for item in value]
    return upload(value) if is_complex_scalar(value) else value


def is_complex_scalar(value: Any) -> bool:
    """Whether a value is a complex tensor of the CPU without axes."""
    return isinstance(value, torch.Tensor) and value.is_complex() and value.device.type == "cpu" and not value.dim()


def _to_cpu(value: Any) -> Any:
    if isinstance(value, FleetTensor):
        return fetch(value)
    if isinstance(value, list | tuple):
        return [_to_cpu(item) for item in value]
    return value


def _to_fleet(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return upload(value)
    if isinstance(value, list | tuple):
        return type(value)(_to_fleet(item) for item in value)
    return value


@special("_nested_tensor_from_mask_left_aligned")
def _has_no_nested_tensors(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a padded batch can become a nested tensor, which `nn.TransformerEncoder` then computes with."""
    return False


@special("equal")
def _equal(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    first, second = args
    if first.device != second.device:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{first.device} and {second.device}!"
        )
    return first.shape == second.shape and torch.equal(fetch(first), fetch(second))


@special("index.Tensor")
def _index(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`x[i, mask]`: only masks are read; their places go back as indices."""
    from gt.dispatch import run  # the hot path needs this module to load

    indices: list[Any] = []
    for index in args[1]:
        if index is not None and index.dtype in _MASKS:
            mask = fetch(index) if type(index) is FleetTensor else index
            indices += [upload(places) for places in mask.nonzero(as_tuple=True)]
        else:
            indices.append(_on_fleet(index))
    return run(func, _indexings.setdefault("get", {}), (args[0], indices), None)


@special("index_put", "index_put_", "_index_put_impl_")
def _index_put(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`x[i] = y`: indices may lie on the CPU, as on other devices."""
    from gt.dispatch import run  # the hot path needs this module to load

    indices = [_on_fleet(index) for index in args[1]]
    return run(func, _indexings.setdefault(func.name(), {}), (args[0], indices, *args[2:]), kwargs)


def _on_fleet(index: Any) -> Any:
    return index if index is None or type(index) is FleetTensor else upload(index)
