"""Kernels: the callable behind each allowed operator, and those that PyTorch leaves to each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload

from gt_worker.strides import dense_strides

aten = torch.ops.aten


def kernel(name: str) -> Callable[..., Any]:
    """The callable of an allowed overload, with nothing left to look up."""
    own = KERNELS.get(name)
    if own is not None:
        return own
    function: Callable[..., Any] = overload(name)._op
    return _with_channels(name, function) if name in PER_CHANNEL else function


def overload(name: str) -> OpOverload:
    """PyTorch's object of an overload, by its schema name."""
    base, _, suffix = name.removeprefix("aten::").partition(".")
    found: OpOverload = getattr(getattr(aten, base), suffix or "default")
    return found


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """Fused attention over (batch, heads, seq, hidden); the results match those of PyTorch's meta kernel.

    Raises:
        ValueError: With dropout, which needs the operator that stores its mask.
    """
    if dropout:
        raise ValueError("this operator can't drop out; use scaled_dot_product_attention outside of it")
    scores = _scores(query, key, bias, causal, scale)
    logsumexp = scores.logsumexp(-1)
    weights = (scores - _finite(logsumexp).unsqueeze(-1)).exp()
    result = _laid_out(weights @ value.to(weights.dtype), query)
    unused = torch.zeros((), dtype=torch.int64)
    batched = logsumexp if query.dim() == 4 else logsumexp.unsqueeze(0)
    return result, batched.float().contiguous(), None, None, query.shape[-2], key.shape[-2], unused, unused, None


def attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: list[bool],
    result: Tensor,
    logsumexp: Tensor,
    *_: object,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of `attention` in query, key, value, and bias if the mask asks for it."""
    causal = bool(_[5])
    factor = _scale(query, scale)
    scores = _scores(query, key, bias, causal, scale)
    wide = scores.dtype
    logsumexp = logsumexp.view(scores.shape[:-1]).to(wide)
    weights = (scores - _finite(logsumexp).unsqueeze(-1)).exp()
    upstream = grad.to(wide)
    delta = (upstream * result.to(wide)).sum(-1, keepdim=True)
    slope = weights * (upstream @ value.to(wide).transpose(-2, -1) - delta)
    grad_bias = None
    if bias is not None and mask[3]:
        grad_bias = _laid_out(slope.sum_to_size(bias.shape), bias)
    return (
        _laid_out(slope @ key.to(wide) * factor, query),
        _laid_out(slope.transpose(-2, -1) @ query.to(wide) * factor, key),
        _laid_out(weights.transpose(-2, -1) @ upstream, value),
        grad_bias,
    )


KERNELS: Final[Mapping[str, Callable[..., Any]]] = {
    "aten::_scaled_dot_product_fused_attention_overrideable": attention,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": attention_backward,
}
"""By name of the overload; PyTorch has none of these on CPU and CUDA."""


#: Arguments that PyTorch's kernels index by channel without checking their size: with a wrong one, a client could have
#: a worker write beyond a tensor's memory.
PER_CHANNEL: Final[Mapping[str, tuple[int, ...]]] = {
    "aten::native_batch_norm": (1, 2, 3, 4),
    "aten::native_batch_norm_backward": (2, 3, 4, 5, 6),
    "aten::_native_batch_norm_legit": (1, 2, 3, 4),
    "aten::_native_batch_norm_legit.no_stats": (1, 2),
    "aten::_native_batch_norm_legit_no_training": (1, 2, 3, 4),
    "aten::_batch_norm_with_update": (1, 2, 3, 4),
    "aten::_batch_norm_no_update": (1, 2, 3, 4),
    "aten::batch_norm_update_stats": (1, 2),
}

#: Where in `native_batch_norm_backward` the flag stands without which saved statistics are not read.
_TRAINING: Final = 7


def _with_channels(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a check of its arguments' sizes."""
    positions = PER_CHANNEL[name]
    is_backward = name == "aten::native_batch_norm_backward"

    def checked(*args: Any, **kwargs: Any) -> Any:
        shape = args[0].shape
        if is_backward and args[1].shape != shape:
            raise ValueError(f"a gradient of shape {tuple(shape)} for an input of shape {tuple(args[1].shape)}")
        for position in positions:
            value = args[position] if position < len(args) else None
            if value is None or value.numel() == shape[1]:
                continue
            if not (is_backward and position in (5, 6) and value.numel() == 0 and not args[_TRAINING]):
                raise ValueError(
                    f"argument {position} must have one number for each of {shape[1]} channels, not {value.numel()}"
                )
        return function(*args, **kwargs)

    return checked


def _scale(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """Scaled scores (batch, heads, seq of queries, seq of keys), in at least single precision."""
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = (query.to(wide) * _scale(query, scale)) @ key.to(wide).transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores


def _finite(logsumexp: Tensor) -> Tensor:
    """Queries that may look at nothing get zeros instead of NaN."""
    return logsumexp.masked_fill(logsumexp == float("-inf"), 0.0)


def _laid_out(value: Tensor, like: Tensor) -> Tensor:
    """The value in the element type and order of axes of another tensor."""
    strides = dense_strides(value.shape, like.stride())
    return torch.empty_strided(value.shape, strides, dtype=like.dtype, device=value.device).copy_(value)
