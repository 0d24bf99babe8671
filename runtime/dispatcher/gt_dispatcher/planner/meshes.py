"""Chooses the workers that an instruction runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gt_dispatcher.planner.errors import PlanError
from gt_dispatcher.planner.instruction import written_operands
from gt_dispatcher.planner.layout import Layout, Mesh
from gt_dispatcher.planner.plan import Region
from gt_protocol.blocks import Call, NewTensor
from gt_protocol.operators import Operator

#: Operators that write to an operand besides what they are for; their work does not move to where it lies.
SIDE_WRITES: Final = frozenset({"aten::native_batch_norm", "aten::batch_norm", "aten::instance_norm"})


#: Change a tensor's shape or strides in place, so that its layout would no longer be true.
RESHAPE_IN_PLACE: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("as_strided_", "detach_", "resize_", "resize_as_", "squeeze_", "squeeze_.dim", "squeeze_.dims"),
        *("swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"),
    )
)


def check_supported(name: str) -> None:
    """Refuses what no plan can express.

    Raises:
        PlanError: The operator changes the shape of a tensor in place.
    """
    if name in RESHAPE_IN_PLACE:
        raise PlanError(f"{name} changes a tensor's shape in place; use the operator without the underscore")


def choose_mesh(call: Call, operator: Operator, operands: Sequence[Layout], region: Region | None, home: Mesh) -> Mesh:
    """The mesh of an instruction.

    What writes runs where its target lies, and a view where its base lies; else the region decides, else the largest
    mesh among the operands (the first of several), else the home.
    """
    if operator.writes and operator.name not in SIDE_WRITES:
        written = written_operands(call, operator.writes)
        if written:
            return operands[written[0]].mesh
    for output in call.outputs:
        if isinstance(output, NewTensor) and output.base >= 0:
            return operands[output.base].mesh
    if region is not None:
        return region.mesh
    return max((layout.mesh for layout in operands), key=lambda mesh: mesh.size, default=home)
