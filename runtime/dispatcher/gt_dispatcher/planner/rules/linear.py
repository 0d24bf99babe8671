"""Which operators may work on partial sums: those for which the sum of the results is the result of the sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.rules.factories import NEW
from gt_dispatcher.planner.rules.pointwise import LIKE
from gt_dispatcher.planner.rules.views import LINEAR_VIEWS
from gt_protocol.placements import Partial


def _always(instruction: Instruction) -> bool:
    return True


def _all_sums(instruction: Instruction) -> bool:
    """Sum of sums: only if every operand is one, of floating type, else integer rounding could tell the difference."""
    floating = all("float" in meta.dtype for meta in instruction.metas)
    return floating and len(instruction.metas) > 0 and all(place == Partial("sum") for place in instruction.places)


def _scaled_sum(instruction: Instruction) -> bool:
    """A sum times or divided by a plain number."""
    return instruction.is_scalar(1, "other") and _all_sums(instruction)


LINEAR: Final[Mapping[str, Callable[[Instruction], bool]]] = {
    **dict.fromkeys(LINEAR_VIEWS | LIKE | NEW, _always),
    **dict.fromkeys(("aten::add.Tensor", "aten::sub.Tensor", "aten::neg", "aten::_unsafe_view"), _all_sums),
    **dict.fromkeys(("aten::mul.Tensor", "aten::mul.Scalar", "aten::div.Tensor", "aten::div.Scalar"), _scaled_sum),
    **dict.fromkeys(("aten::sum", "aten::sum.dim_IntList"), _all_sums),
}
"""Whether an operator may have partial operands, by its name; others may not."""
