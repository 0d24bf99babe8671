"""Operators that autograd should see whole, so that a layer is one instruction forward and one backward."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from gt._torch import register_kernel


def register_formulas() -> None:
    """Registers them for the device."""
    # With a kernel of the device's own, autograd takes `linear`'s own formula instead of taking it apart.
    register_kernel("linear", _never_called)
    register_kernel("scaled_dot_product_attention", _attention, autograd=True)
    register_kernel("scaled_dot_product_attention", _attention)


def _never_called(*_: Any) -> NoReturn:
    raise AssertionError("tensors of the fleet are dispatched before any kernel of the device")


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention as the one fused operator that has a backward of its own on every device."""
    if query.dim() != 4 or enable_gqa or dropout_p:
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    bias = attn_mask
    if bias is not None and bias.dtype == torch.bool:
        bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill(bias.logical_not(), float("-inf"))
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    return fused(query, key, value, bias, dropout_p, is_causal, scale=scale)[0]
