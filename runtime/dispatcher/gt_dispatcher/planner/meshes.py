"""Chooses the workers that an instruction runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gt_dispatcher.planner.instruction import written_operands
from gt_dispatcher.planner.layout import Layout, Mesh
from gt_dispatcher.planner.plan import Region
from gt_protocol.blocks import Call, NewTensor
from gt_protocol.operators import Operator

#: Operators that write to an operand besides what they are for; their work does not move to where it lies.
SIDE_WRITES: Final = frozenset({"aten::native_batch_norm", "aten::batch_norm", "aten::instance_norm"})


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
