"""Cells of LSTM and GRU: PyTorch hands them whole to devices other than the CPU, but has no kernel for every worker."""

from __future__ import annotations

from typing import Any

import torch

from gt.specials import special


@special("_thnn_fused_lstm_cell")
def lstm_cell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """(hidden, cell, workspace of the activated gates), from gates (batch, 4 * hidden) in the order i, f, g, o."""
    from_input, from_hidden, cell, *biases = args
    gates = _sum([from_input, from_hidden, *biases]).chunk(4, 1)
    i, f, g, o = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()
    new_cell = f * cell + i * g
    return o * new_cell.tanh(), new_cell, torch.cat([i, f, g, o], 1)


@special("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor | None, ...]:
    """Gradients of gates, cell and bias."""
    grad_hidden, grad_cell, cell, new_cell, workspace, has_bias = args
    i, f, g, o = workspace.chunk(4, 1)
    bent = new_cell.tanh()
    parts = [grad_cell] if grad_cell is not None else []
    if grad_hidden is not None:
        parts.append(grad_hidden * o * (1 - bent * bent))
        grad_o = grad_hidden * bent * o * (1 - o)
    else:
        grad_o = torch.zeros_like(o)
    upstream = _sum(parts)
    grad_f, grad_i, grad_g = upstream * cell * f * (1 - f), upstream * g * i * (1 - i), upstream * i * (1 - g * g)
    grad_gates = torch.cat([grad_i, grad_f, grad_g, grad_o], 1)
    return grad_gates, upstream * f, grad_gates.sum(0) if has_bias else None


@special("_thnn_fused_gru_cell")
def gru_cell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """(hidden, workspace for the backward pass), from gates (batch, 3 * hidden) in the order reset, update, new."""
    from_input, from_hidden, hidden, *biases = args
    if biases and biases[0] is not None:
        from_input, from_hidden = from_input + biases[0], from_hidden + biases[1]
    reset_in, update_in, new_in = from_input.chunk(3, 1)
    reset_hidden, update_hidden, new_hidden = from_hidden.chunk(3, 1)
    r, z = (reset_in + reset_hidden).sigmoid(), (update_in + update_hidden).sigmoid()
    n = (new_in + r * new_hidden).tanh()
    return n + z * (hidden - n), torch.cat([r, z, n, hidden, new_hidden], 1)


@special("_thnn_fused_gru_cell_backward")
def gru_cell_backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor | None, ...]:
    """Gradients of both kinds of gates, hidden state and both biases."""
    grad, workspace, has_bias = args
    r, z, n, hidden, new_hidden = workspace.chunk(5, 1)
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_r, grad_z = grad_n * new_hidden * r * (1 - r), grad * (hidden - n) * z * (1 - z)
    to_input = torch.cat([grad_r, grad_z, grad_n], 1)
    to_hidden = torch.cat([grad_r, grad_z, grad_n * r], 1)
    biases = (to_input.sum(0), to_hidden.sum(0)) if has_bias else (None, None)
    return to_input, to_hidden, grad * z, *biases


def _sum(values: list[Any]) -> Any:
    first, *others = [value for value in values if value is not None]
    for value in others:
        first = first + value
    return first
