"""Replays captured programs on simulated workers, by the dispatcher's own planner and storage keeper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from gt_dispatcher.directory import Directory, Tensor
from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.plan import Plan, Prepare, Region
from gt_dispatcher.planner.planner import Planner
from gt_dispatcher.storages import StorageKeeper
from gt_protocol.blocks import Call, NewTensor
from gt_protocol.operators import OperatorTable
from gt_protocol.placements import Placement, Replicate
from tests.support.planner.capture import Recorded, Recording, meta_of
from tests.support.planner.simulator import Simulator, placed


@dataclass
class Emission:
    """Runs plans at once instead of writing programs."""

    simulator: Simulator
    context: str = ""

    def run(
        self, plan: Plan, origin: int, registers: Sequence[int], floats: Sequence[float], ints: Sequence[int]
    ) -> None:
        """Runs a plan."""
        self.simulator.run(plan, registers, floats, ints)

    def free(self, layout: Layout, register: int) -> None:
        """Forgets a register."""
        self.simulator.free(layout, register)


@dataclass
class Report:
    """What a replay did.

    Attributes:
        traffic: (kind, bytes, operator) of each collective.
        fallbacks: Operators that ran on gathered operands, with the reason.
        worst: Largest relative difference to the captured values.
    """

    traffic: list[tuple[str, int, str]] = field(default_factory=list)
    fallbacks: Counter[tuple[str, str]] = field(default_factory=Counter)
    worst: float = 0.0

    def kinds(self) -> Counter[str]:
        """Number of collectives of each kind."""
        return Counter(kind for kind, _, _ in self.traffic)


class Fleet:
    """Simulated workers with a directory of tensors.

    Args:
        operators: The operator table.
        workers: Number of workers.
        region: The region that everything runs in, or None.
        tolerance: Largest relative difference to the captured values.
    """

    def __init__(
        self, operators: OperatorTable, workers: int, region: Region | None = None, tolerance: float = 1e-4
    ) -> None:
        self.simulator = Simulator(operators, workers)
        self.layouts = LayoutTable()
        self.planner = Planner(operators, self.layouts, self.simulator.groups)
        self.directory = Directory()
        self.keeper = StorageKeeper(self.planner, self.layouts, self._register)
        self.emission = Emission(self.simulator)
        self.mesh = Mesh(tuple(range(workers)), (workers,))
        self.region = region
        self.report = Report(self.simulator.traffic)
        self._operators = operators
        self._tolerance = tolerance
        self._counter = 0
        self._last = 0

    def _register(self) -> int:
        self._last += 1
        return self._last

    def put(self, number: int, value: torch.Tensor, place: Placement, mesh: Mesh | None = None) -> Tensor:
        """Places an input."""
        layout = self.layouts.get(mesh or self.mesh, (place,), meta_of(value, offset=False))
        tensor = Tensor(number, layout, self._register())
        parts = placed(value, layout)
        for worker, part in zip(layout.mesh.workers, parts, strict=True):
            self.simulator.files[worker][tensor.register] = part
        self.directory.tensors[number] = tensor
        return tensor

    def replay(
        self,
        recording: Recording,
        places: Mapping[str, Placement],
        meshes: Mapping[str, Mesh] | None = None,
    ) -> Report:
        """Replays a program, and compares every value with the captured one.

        Args:
            recording: The program.
            places: Placement of inputs by name; all others are replicated.
            meshes: Mesh of inputs by name, where it is not that of all workers.
        """
        names = {number: name for name, number in recording.numbers.items()}
        for number, value in recording.inputs.items():
            name = names.get(number, "")
            self.put(number, value, places.get(name, Replicate()), (meshes or {}).get(name))
        for instruction in recording.instructions:
            self.step(instruction)
        return self.report

    def step(self, recorded: Recorded) -> None:
        """Runs one instruction and checks what it made or wrote."""
        call = recorded.call
        operands = [self.directory.tensors[number] for number in recorded.operands]
        plan = self._plan(call, operands)
        name = self._operators[call.op].name
        if plan.fallback:
            self.report.fallbacks[name, plan.fallback] += 1
        made = [
            Tensor(number, layout, self._register()) for number, layout in zip(recorded.new, plan.outputs, strict=True)
        ]
        ints = [self._counter] if recorded.random else []
        self._counter += recorded.random
        registers = [tensor.register for tensor in (*operands, *made)]
        try:
            self.simulator.run(plan, registers, recorded.floats, ints)
        except Exception as error:
            error.add_note(f"in {name} of {[self._where(tensor) for tensor in operands]}")
            raise
        bases = [output.base for output in call.outputs if isinstance(output, NewTensor)]
        for tensor, base in zip(made, bases, strict=True):
            self.directory.tensors[tensor.id] = tensor
            if base >= 0:
                owner = operands[base]
                assert owner.layout is not None
                self.directory.share(tensor, owner, owner.layout)
        for number, value in recorded.expected.items():
            self._compare(number, value, f"{name} of {[self._where(tensor) for tensor in operands]}")

    def _plan(self, call: Call, operands: Sequence[Tensor]) -> Plan:
        for _ in range(1000):
            layouts = tuple(tensor.layout for tensor in operands if tensor.layout is not None)
            answer = self.planner.plan(call, layouts, self.region, self.mesh)
            if isinstance(answer, Plan):
                return answer
            assert isinstance(answer, Prepare)
            self.keeper.prepare(operands[answer.operand], answer.change, self.emission)
        raise AssertionError("there is no end to preparations")

    def _where(self, tensor: Tensor) -> str:
        layout = tensor.layout
        return "nothing" if layout is None else f"{layout.meta.shape} {layout.placements[0]}@{layout.mesh.workers}"

    def value(self, number: int) -> torch.Tensor:
        """The global value of a tensor."""
        tensor = self.directory.tensors[number]
        assert tensor.layout is not None
        return self.simulator.value(tensor.layout, tensor.register)

    def _compare(self, number: int, wanted: torch.Tensor, what: str) -> None:
        got = self.value(number)
        assert got.shape == wanted.shape, f"{what}: {tuple(got.shape)} instead of {tuple(wanted.shape)}"
        if not wanted.is_floating_point():
            assert torch.equal(got, wanted), f"{what} gave {got}, not {wanted}"
            return
        if wanted.numel() == 0:
            return
        # Inputs are near 1: where they cancel out, as in gradients before a normalisation, their rounding is no error.
        scale = wanted.nan_to_num(posinf=0, neginf=0).abs().max().clamp(min=1e-2)
        assert torch.equal(got.isnan(), wanted.isnan()), f"{what} gave NaN"
        difference = ((got - wanted).nan_to_num(posinf=0, neginf=0).abs().max() / scale).item()
        self.report.worst = max(self.report.worst, difference)
        assert difference <= self._tolerance, f"{what} is off by {difference}:\n{got}\n{wanted}"
