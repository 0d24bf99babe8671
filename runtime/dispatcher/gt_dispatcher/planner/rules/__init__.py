"""The planner's own rules, by subject.

A rule looks at an instruction of which an operand is split or partial, and proposes placements for the others and for
the results. `find_rule` says which rule is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.rules import (
    along,
    attention,
    embedding,
    factories,
    lists,
    losses,
    norms,
    others,
    pointwise,
    pooling,
    products,
    randomness,
    reductions,
    views,
)
from gt_dispatcher.planner.rules.linear import LINEAR
from gt_dispatcher.planner.strategy import Rule
from gt_protocol.operators import OperatorTable

_RULES: Final[Mapping[str, Rule]] = {
    **views.RULES,
    **pointwise.RULES,
    **factories.RULES,
    **along.RULES,
    **attention.RULES,
    **embedding.RULES,
    **losses.RULES,
    **norms.RULES,
    **pooling.RULES,
    **products.RULES,
    **reductions.RULES,
    **randomness.RULES,
}


def find_rule(instruction: Instruction, operators: OperatorTable) -> Rule:
    """The rule for an instruction: its own, or that of its kind."""
    own = _RULES.get(instruction.name)
    if own is not None:
        return own
    if lists.is_list_operator(instruction.name):
        return lists.by_element
    if instruction.operator.random:
        return randomness.draw
    if pointwise.is_pointwise(instruction.operator, operators):
        return pointwise.pointwise
    return others.propagated if instruction.name in others.CERTIFIED else others.unknown


__all__ = ["LINEAR", "find_rule"]
