"""One operator on simulated workers, against what it does on the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.plan import Plan, Prepare, Region
from gt_dispatcher.planner.planner import Planner
from gt_protocol.operators import operator_table
from gt_protocol.placements import Placement
from tests.support.planner.capture import Capture, Recording, meta_of
from tests.support.planner.fleet import Fleet, Report
from tests.support.planner.simulator import Groups

OPERATORS = operator_table()


def captured(program: Callable[..., object], operands: Sequence[torch.Tensor]) -> Recording:
    """What a program does, with the operands named 0, 1, ..."""
    capture = Capture(OPERATORS)
    for position, operand in enumerate(operands):
        capture.name(str(position), operand)
    with capture:
        program(*operands)
    return capture.recording


def replayed(
    program: Callable[..., object],
    operands: Sequence[torch.Tensor],
    places: Sequence[Placement],
    workers: int,
    region: Region | None = None,
) -> Report:
    """Runs a program on workers, checks every value, and tells what moved."""
    recording = captured(program, operands)
    fleet = Fleet(OPERATORS, workers, region)
    return fleet.replay(recording, {str(position): place for position, place in enumerate(places)})


class Bench:
    """A planner to ask about single instructions."""

    def __init__(self) -> None:
        self.layouts = LayoutTable()
        self.groups = Groups()
        self.planner = Planner(OPERATORS, self.layouts, self.groups)

    def layout(self, tensor: torch.Tensor, mesh: Mesh, place: Placement) -> Layout:
        """A layout of a tensor."""
        return self.layouts.get(mesh, (place,), meta_of(tensor))

    def ask(
        self,
        program: Callable[..., object],
        operands: Sequence[tuple[torch.Tensor, Mesh, Placement]],
        region: Region | None = None,
        home: Mesh | None = None,
    ) -> Plan | Prepare:
        """Plans the one instruction of a program."""
        recording = captured(program, [tensor for tensor, _, _ in operands])
        # PyTorch's own bindings detach what factories make; the client sends no instruction for that.
        instruction, *rest = recording.instructions
        assert {OPERATORS[other.call.op].name for other in rest} <= {"aten::detach"}
        layouts = [self.layout(*operands[number]) for number in instruction.operands]
        return self.planner.plan(instruction.call, tuple(layouts), region, home or Mesh.single(0))

    def plan(
        self,
        program: Callable[..., object],
        operands: Sequence[tuple[torch.Tensor, Mesh, Placement]],
        region: Region | None = None,
        home: Mesh | None = None,
    ) -> Plan:
        """The same, where it can be planned at once."""
        answer = self.ask(program, operands, region, home)
        assert isinstance(answer, Plan), answer
        return answer
