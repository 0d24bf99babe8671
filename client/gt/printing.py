"""How a tensor of the fleet is shown: as any other, and without fetching more than is shown."""

from __future__ import annotations

import torch

from gt._torch import format_values, print_limits
from gt.tensor import FleetTensor
from gt.transfers import fetch


def format_tensor(tensor: FleetTensor) -> str:
    """What `repr` gives.

    Raises:
        RemoteError: The tensor has no value.
    """
    prefix = "tensor("
    if tensor.numel():
        values, shorten = _shown_part(tensor)
        body = format_values(values, len(prefix), shorten=shorten)
    else:
        body = "[]"
    parts = [prefix + body, f"device='{tensor.device}'", *_suffixes(tensor)]
    start = "Parameter containing:\n" if isinstance(tensor, torch.nn.Parameter) else ""
    return start + ", ".join(parts) + ")"


def _suffixes(tensor: FleetTensor) -> list[str]:
    suffixes: list[str] = []
    if not tensor.numel() and tensor.dim() != 1:
        suffixes.append(f"size={tuple(tensor.shape)}")
    default = torch.get_default_dtype()
    shown = (default, default.to_complex(), torch.int64, torch.bool) if tensor.numel() else (default,)
    if tensor.dtype not in shown:
        suffixes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return suffixes


def _shown_part(tensor: FleetTensor) -> tuple[torch.Tensor, bool]:
    """(the values that are shown, whether some are left out).

    Of a long axis, both ends and one element more are kept: so many that formatting leaves something out there too.
    """
    threshold, edge = print_limits()
    part = tensor.detach()
    if part.numel() <= threshold:
        return fetch(part), False  # type: ignore[arg-type]  # what detach gives is a FleetTensor
    for axis, size in enumerate(part.shape):
        if size > 2 * edge + 1:
            ends = [part.narrow(axis, 0, edge + 1), part.narrow(axis, size - edge, edge)]
            part = torch.cat(ends, axis)
    return fetch(part), True  # type: ignore[arg-type]  # the same
