"""Linear layers and attention as the client sends them: one instruction forward, one backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch.nn import functional

from tests.support.planner import attention
from tests.support.planner.capture import Capture

_plain_linear = functional.linear
_ATTENTION = "aten::_scaled_dot_product_fused_attention_overrideable"


def _linear_backward(
    source: torch.Tensor, grad: torch.Tensor, weight: torch.Tensor, mask: list[bool]
) -> list[torch.Tensor | None]:
    flat = grad.flatten(0, -2) if grad.dim() > 1 else grad.unsqueeze(0)
    flat_source = source.flatten(0, -2) if source.dim() > 1 else source.unsqueeze(0)
    made = grad @ weight, flat.t() @ flat_source, flat.sum(0)
    return [tensor if wanted else None for tensor, wanted in zip(made, mask, strict=True)]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, capture, source, weight, bias):
        ctx.capture, ctx.operands, ctx.bias = capture, (source, weight), bias is not None
        return capture.emit("aten::linear", _plain_linear, source, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        source, weight = ctx.operands
        mask = [source.requires_grad, True, ctx.bias]
        return (None, *ctx.capture.emit("aten::linear_backward", _linear_backward, source, grad, weight, mask))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, capture, query, key, value, bias, causal):
        results = capture.emit(_ATTENTION, attention.forward, query, key, value, bias, 0.0, causal)
        ctx.capture, ctx.operands, ctx.causal, ctx.results = capture, (query, key, value, bias), causal, results
        return results[0]

    @staticmethod
    def backward(ctx, grad):
        query, key, value, bias = ctx.operands
        output, logsumexp, *rest = ctx.results
        mask = [True, True, True, bias is not None and bias.requires_grad]
        args = (grad, query, key, value, bias, mask, output, logsumexp, rest[0], rest[1], 0, 0, 0.0, ctx.causal)
        grads = ctx.capture.emit(f"{_ATTENTION}_backward", attention.backward, *args, rest[2], rest[3])
        return (None, *grads, None)


@contextmanager
def client_operators(capture: Capture) -> Iterator[None]:
    """Has linear layers and attention without dropout go the client's way."""

    def linear(source, weight, bias=None):
        return _Linear.apply(capture, source, weight, bias)

    def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **rest):
        assert dropout_p == 0.0
        return _Attention.apply(capture, query, key, value, attn_mask, is_causal)

    with (
        mock.patch.object(functional, "linear", linear),
        mock.patch.object(functional, "scaled_dot_product_attention", attend),
    ):
        yield
