"""What a rule proposes: placements of operands and results, and the local calls that go with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gt_dispatcher.planner.draft import Draft, Value
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.plan import Prepare
from gt_protocol.arguments import Argument
from gt_protocol.placements import Placement

#: Makes a local argument: position of the worker in the mesh -> argument.
LocalArgument: TypeAlias = Callable[[int], Argument]


@dataclass(frozen=True)
class Strategy:
    """A way to run an instruction as one local call on each worker, on a mesh of one dimension.

    Attributes:
        inputs: Wanted placement of each operand.
        outputs: Placement of each new tensor.
        local: Arguments that differ from the client's, by position.
        op: Operator to call locally; the client's own if empty.
    """

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    local: Mapping[int, LocalArgument] = field(default_factory=dict)
    op: str = ""


@dataclass(frozen=True)
class Custom:
    """A way to run an instruction that writes its own steps.

    Attributes:
        emit: Writes the steps; returns the new tensors.
        fallback: Why it works on gathered operands, if it does.
    """

    emit: Callable[[Draft, Instruction], Sequence[Value]]
    fallback: str = ""


#: Proposes how to run an instruction; raises `NoRule` where it does not apply.
Rule: TypeAlias = Callable[[Instruction], Strategy | Custom | Prepare]
