"""Error values: what a register holds instead of a tensor when its instruction failed."""

from __future__ import annotations

from typing import TypeAlias

import torch

from gt_protocol.failure import Failure


class Poison:
    """Stands for a tensor that could not be made.

    An operator that is given one raises, so that nothing on the ordinary path has to look for it.

    Attributes:
        failure: The first cause.
    """

    __slots__ = ("failure",)

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


Value: TypeAlias = torch.Tensor | Poison
"""What a register holds."""


def describe_value(value: Value | None) -> str:
    """Type and shape of an operand as a failure names it, such as `float32(2, 3)`."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}({', '.join(map(str, value.shape))})"
    return "unknown" if value is None else "failed"
