"""The planner: turns instructions into what each worker does."""

from __future__ import annotations

from collections.abc import Mapping

from gt_dispatcher.planner.draft import Groups, PlanContext
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.execution import by_strategy, on_gathered_operands, on_whole_operands
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.meshes import check_supported, choose_mesh
from gt_dispatcher.planner.plan import Change, Plan, Prepare, Region
from gt_dispatcher.planner.redistribution import check_mesh
from gt_dispatcher.planner.rules import LINEAR, find_rule
from gt_dispatcher.planner.rules.factories import plan_factory
from gt_dispatcher.planner.rules.lists import is_list_operator
from gt_dispatcher.planner.strategy import Strategy
from gt_dispatcher.planner.transfers import (
    Cut,
    fetch_parts,
    place_upload,
    plan_reduce_in_place,
    plan_relayout,
    plan_restride,
)
from gt_protocol.blocks import Call, TensorMeta
from gt_protocol.operators import OperatorTable
from gt_protocol.placements import Placement


class Planner:
    """Plans instructions and moves. Its answers depend on the arguments alone, so that callers may keep them.

    Args:
        operators: The operator table.
        layouts: The layout table.
        groups: Gives the number of the process group of exactly these workers, in this order.
    """

    def __init__(self, operators: OperatorTable, layouts: LayoutTable, groups: Groups) -> None:
        self._context = PlanContext(operators, layouts, groups)

    def plan(self, call: Call, operands: tuple[Layout, ...], region: Region | None, home: Mesh) -> Plan | Prepare:
        """Plans a call.

        Args:
            call: The call.
            operands: Where its operands lie.
            region: What the innermost signal with a rule says, or None.
            home: Where tensors without a region are made.

        Returns:
            The plan, or how an operand's storage must change before there can be one.

        Raises:
            PlanError: The call can't be planned.
            ShardingError: The region does not fit the call's results.
        """
        operator = self._context.operators[call.op]
        check_supported(operator.name)
        mesh = choose_mesh(call, operator, operands, region, home)
        check_mesh(mesh)
        instruction = Instruction(call, operator, operands, mesh)
        if not operands:
            return plan_factory(self._context, instruction, region)
        if all(layout.mesh == mesh and layout.whole for layout in operands):
            return on_whole_operands(self._context, instruction)
        prepare = _reduce_first(instruction)
        if prepare is not None:
            return prepare
        if not instruction.sharded and not is_list_operator(instruction.name):
            return on_gathered_operands(self._context, instruction, "")
        return self._plan_sharded(instruction)

    def _plan_sharded(self, instruction: Instruction) -> Plan | Prepare:
        try:
            proposal = find_rule(instruction, self._context.operators)(instruction)
            if isinstance(proposal, Prepare):
                return proposal
            if isinstance(proposal, Strategy):
                return by_strategy(self._context, instruction, proposal)
            draft = instruction.draft(self._context)
            return draft.finish(proposal.emit(draft, instruction), proposal.fallback)
        except NoRule as error:
            return on_gathered_operands(self._context, instruction, str(error))

    def relayout(self, source: Layout, target_mesh: Mesh, placements: tuple[Placement, ...]) -> Plan:
        """A copy of a tensor with another mesh or placements: one input, one output, a storage of its own.

        Raises:
            PlanError: There is no way.
        """
        return plan_relayout(self._context, source, target_mesh, placements)

    def reduce_in_place(self, layout: Layout) -> Plan:
        """Makes the partial sums of a tensor's whole storage whole, in place: one input, no output.

        Raises:
            PlanError: The tensor is not partial.
        """
        return plan_reduce_in_place(self._context, layout)

    def restride(self, root: Layout, meta: TensorMeta) -> Plan:
        """A view of a replicated storage by explicit metadata: its root as input, one output.

        Raises:
            PlanError: The root is split, or has gaps.
        """
        return plan_restride(self._context, root, meta)

    def upload(self, meta: TensorMeta, region: Region | None, home: Mesh) -> tuple[Layout, Mapping[int, Cut]]:
        """Where an upload goes, and what each worker keeps of it: (axis, start, length), or None for all.

        Raises:
            ShardingError: The region's placements do not fit the tensor.
        """
        return place_upload(self._context.layouts, meta, region, home)

    def parts(self, layout: Layout) -> tuple[int, tuple[int, ...]]:
        """Axis and workers whose parts, concatenated, are a tensor's value; one worker if it is whole.

        Raises:
            PlanError: The tensor is partial.
        """
        return fetch_parts(layout)


def _reduce_first(instruction: Instruction) -> Prepare | None:
    """The reduction that must come first: of what an operator writes to, moves, or can't be linear in."""
    for operand, layout in enumerate(instruction.operands):
        if layout.partial:
            linear = LINEAR.get(instruction.name)
            moves = layout.mesh != instruction.mesh
            if moves or operand in instruction.writes or linear is None or not linear(instruction):
                return Prepare(operand, Change.REDUCE)
    return None
