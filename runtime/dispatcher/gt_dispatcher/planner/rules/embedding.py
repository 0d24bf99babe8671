"""Embeddings: rows of a table, and the table's gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.axes import Axes, Result, by_axes, labelled
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.strategy import Rule, Strategy


def embedding(instruction: Instruction) -> Strategy:
    """`embedding(weight, indices, ...)`: the indices can be split, or the features."""
    indices = labelled(len(instruction.shape(1)), "i")
    return by_axes(instruction, Axes((("", "e"), indices), (Result((*indices, "e")),)))


def embedding_backward(instruction: Instruction) -> Strategy:
    """`embedding_dense_backward(grad, indices, rows, padding, scale_by_frequency)`: a sum over all indices."""
    if instruction.constant(4, "scale_grad_by_freq", False):
        raise NoRule("gradients are scaled by the frequency of each row")
    indices = labelled(len(instruction.shape(1)), "i")
    result = Result(("", "e"), frozenset(indices))
    return by_axes(instruction, Axes(((*indices, "e"), indices), (result,)))


RULES: Final[Mapping[str, Rule]] = {
    "aten::embedding": embedding,
    "aten::embedding_dense_backward": embedding_backward,
}
