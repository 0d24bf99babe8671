"""The executor alone: programs over registers, and failures as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from gt_protocol.arguments import (
    Argument,
    Const,
    DeviceArg,
    DtypeArg,
    FloatSlot,
    LayoutArg,
    ListArg,
    MemoryFormatArg,
    Operand,
    ScalarTensor,
)
from gt_protocol.errors import MalformedFrame
from gt_protocol.failure import Failure, FailureKind
from gt_protocol.messages import RegisterFailed, RegisterValue
from gt_protocol.operators import operator_table
from gt_protocol.programs import (
    FREE,
    AliasStep,
    CallStep,
    CopyStep,
    Program,
    RestrideStep,
    Routine,
    SliceStep,
    Step,
    StoreShard,
    ZerosStep,
    pack_code,
)
from gt_worker.devices import Device
from gt_worker.executor import MAX_FAILURES, Executor
from gt_worker.groups import Groups
from gt_worker.poison import Poison
from gt_worker.rendezvous import Stores

TABLE = operator_table()


class Bench:
    """An executor, and short ways to feed it."""

    def __init__(self) -> None:
        device = Device("cpu", "127.0.0.1")
        groups = Groups(0, device, Stores("127.0.0.1", 5.0), 5.0, lambda _: None)
        self.executor = Executor(4, device, groups, TABLE)
        self.routines = 0

    def run(
        self,
        routine: Routine,
        registers: Sequence[int],
        floats: Sequence[float] = (),
        ints: Sequence[int] = (),
        seed: int = 0,
    ) -> None:
        """Runs a routine once, as instruction 9 of block 8 of session 7."""
        self.routines += 1
        code = pack_code([self.routines, 9, *registers])
        program = Program(7, 8, ((self.routines, routine),), (), code, list(floats), list(ints), seed)
        with torch.inference_mode():
            self.executor.run(program)

    def put(self, register: int, value: torch.Tensor) -> int:
        """Puts a tensor into a register."""
        self.executor.registers[register] = value
        return register

    def tensor(self, register: int) -> torch.Tensor:
        """The tensor in a register."""
        value = self.executor.registers[register]
        assert isinstance(value, torch.Tensor), value.failure
        return value

    def failure(self, register: int) -> Failure:
        """The failure in a register."""
        value = self.executor.registers[register]
        assert isinstance(value, Poison)
        return value.failure

    def reported(self) -> tuple[tuple[int, Failure], ...]:
        """Failures of the next report."""
        report = self.executor.report()
        return () if report is None else report.failures


@pytest.fixture
def bench() -> Bench:
    return Bench()


def call(name: str, *args: Argument, results: tuple[int, ...] = (1,), **kwargs: Argument) -> CallStep:
    """A call step."""
    operator = TABLE.get(name)
    assert operator is not None
    return CallStep(operator.index, args, tuple(sorted(kwargs.items())), results)


def routine(inputs: int, outputs: int, *steps: Step, floats: int = 0, ints: int = 0) -> Routine:
    """A routine of the operator `aten::test`."""
    return Routine(inputs, outputs, floats, ints, steps, "aten::test")


A, B, C = Operand(0), Operand(1), Operand(2)
MATMUL = routine(2, 1, call("aten::mm", A, B, results=(2,)))
ADD_IN_PLACE = routine(2, 0, call("aten::add_.Tensor", A, B, results=(-1,)))


@pytest.mark.parametrize(
    ("step", "inputs", "floats", "want"),
    [
        (call("aten::neg", A), 1, [], [-1.0, -2.0]),
        (call("aten::mul.Scalar", A, FloatSlot(0)), 1, [0.5], [0.5, 1.0]),
        (call("aten::add.Tensor", A, A, alpha=FloatSlot(0)), 1, [2.0], [3.0, 6.0]),
        (call("aten::add.Tensor", A, ScalarTensor("float64", 0)), 1, [0.25], [1.25, 2.25]),
        (call("aten::sum.dim_IntList", A, ListArg((Const(0),)), Const(True)), 1, [], [3.0]),
        (call("aten::cat", ListArg((A, A)), Const(0)), 1, [], [1.0, 2.0, 1.0, 2.0]),
        (call("aten::index.Tensor", A, ListArg((ScalarTensor("int64", 0),))), 1, [], 2.0),
        (call("aten::_to_copy", A, dtype=DtypeArg("int32"), device=DeviceArg()), 1, [], [1, 2]),
        (call("aten::_to_copy", A, layout=LayoutArg("strided")), 1, [], [1.0, 2.0]),
        (call("aten::clone", A, memory_format=MemoryFormatArg("contiguous_format")), 1, [], [1.0, 2.0]),
    ],
)  # fmt: skip
def test_calls(bench: Bench, step: CallStep, inputs: int, floats: list[float], want: object) -> None:
    bench.put(1, torch.tensor([1.0, 2.0]))
    bench.run(routine(inputs, 1, step, floats=len(floats), ints=1), [1, 2], floats, [1])
    assert bench.tensor(2).tolist() == want
    bench.run(routine(inputs, 1, step, AliasStep(1, 1), floats=len(floats), ints=1), [1, 3], floats, [1])
    assert bench.tensor(3).tolist() == want


def test_bindings_are_consumed_in_order(bench: Bench) -> None:
    scale = routine(1, 1, call("aten::mul.Scalar", A, FloatSlot(0)), floats=1)
    bench.put(1, torch.ones(1))
    code = pack_code([3, 0, 1, 2, 3, 1, 1, 3, FREE, 1, 3, 2, 3, 4])
    bench.executor.run(Program(7, 8, ((3, scale),), (), code, [2.0, 3.0, 5.0], []))
    assert (bench.tensor(2).item(), bench.tensor(3).item(), bench.tensor(4).item()) == (2, 3, 15)
    assert 1 not in bench.executor.registers


def test_several_results(bench: Bench) -> None:
    bench.put(1, torch.tensor([3.0, 1.0]))
    bench.run(routine(1, 2, call("aten::sort", A, Const(0), Const(False), results=(1, 2))), [1, 2, 3])
    assert (bench.tensor(2).tolist(), bench.tensor(3).tolist()) == ([1, 3], [1, 0])
    bench.run(routine(1, 2, call("aten::split.Tensor", A, Const(1), Const(0), results=(1, 2))), [1, 4, 5])
    assert (bench.tensor(4).tolist(), bench.tensor(5).tolist()) == ([3], [1])
    bench.run(routine(1, 1, call("aten::sort", A, Const(0), Const(False), results=(-1, 1))), [1, 6])
    assert bench.tensor(6).tolist() == [1, 0]


def test_moves(bench: Bench) -> None:
    whole = bench.put(1, torch.arange(6.0).view(2, 3).t())
    bench.run(routine(1, 1, SliceStep(0, 1, 0, 1, 2)), [whole, 2])
    assert (bench.tensor(2).tolist(), bench.tensor(2).stride()) == ([[1, 4], [2, 5]], (1, 2))
    bench.run(routine(1, 1, SliceStep(0, 1, 0, 3, 0)), [whole, 3])
    assert bench.tensor(3).shape == (0, 2)
    bench.run(routine(1, 1, ZerosStep(0, 1)), [whole, 4])
    assert (bench.tensor(4).stride(), bench.tensor(4).count_nonzero().item()) == ((1, 3), 0)
    bench.run(routine(2, 0, CopyStep(0, 1)), [whole, 4])
    assert torch.equal(bench.tensor(4), bench.tensor(1))
    bench.run(routine(1, 1, RestrideStep(0, 1, (3,), (2,), 1)), [whole, 5])
    assert bench.tensor(5).tolist() == [1, 3, 5]
    assert bench.tensor(5).untyped_storage()._cdata == bench.tensor(1).untyped_storage()._cdata


def test_a_failure_names_everything(bench: Bench) -> None:
    bench.put(1, torch.ones(2, 3))
    bench.put(2, torch.ones(2, 3, dtype=torch.float64))
    bench.run(MATMUL, [1, 2, 3])
    failure = bench.failure(3)
    assert failure.kind == FailureKind.OPERATOR
    assert failure.op == "aten::test"
    assert failure.operands == ("float32(2, 3)", "float64(2, 3)")
    assert (failure.block, failure.instruction, failure.worker, failure.cause) == (8, 9, 4, "RuntimeError")
    assert "\n" not in failure.message
    assert bench.reported() == ((7, failure),)


def test_what_depends_on_a_failure_has_the_same_and_is_not_reported(bench: Bench) -> None:
    bench.put(1, torch.ones(2, 3))
    bench.run(MATMUL, [1, 1, 2])
    first = bench.failure(2)
    assert len(bench.reported()) == 1
    bench.run(MATMUL, [1, 2, 3])
    bench.run(routine(1, 1, call("aten::cat", ListArg((A, A)), Const(0))), [3, 4])
    bench.run(routine(1, 1, AliasStep(0, 1)), [4, 5])
    bench.run(routine(1, 1, RestrideStep(0, 1, (1,), (1,), 0)), [5, 6])
    bench.run(routine(1, 1, call("aten::neg", A, results=(2,)), ZerosStep(2, 1)), [6, 7])
    assert all(bench.failure(register) is first for register in range(3, 8))
    assert bench.reported() == ()


def test_other_instructions_go_on(bench: Bench) -> None:
    bench.put(1, torch.ones(2, 3))
    bench.run(MATMUL, [1, 1, 2])
    bench.run(routine(1, 1, call("aten::neg", A)), [1, 3])
    assert bench.tensor(3).shape == (2, 3)


def test_a_failed_write_spoils_its_target_and_all_views(bench: Bench) -> None:
    base = bench.put(1, torch.zeros(2, 2))
    row = bench.put(2, bench.tensor(base)[0])
    other = bench.put(3, torch.zeros(2, 2))
    odd = bench.put(4, torch.ones(7))
    bench.run(ADD_IN_PLACE, [row, odd])
    assert bench.failure(row) is bench.failure(base)
    assert bench.tensor(other).shape == (2, 2)
    assert bench.tensor(odd).shape == (7,)


@pytest.mark.parametrize("step", [CopyStep(1, 0), call("aten::add_.Tensor", A, B, results=(-1,))])
def test_a_failed_operand_spoils_the_target(bench: Bench, step: Step) -> None:
    bench.put(1, torch.ones(2, 3))
    bench.run(MATMUL, [1, 1, 2])
    target = bench.put(3, torch.ones(2))
    view = bench.put(4, bench.tensor(target)[:1])
    bench.run(routine(2, 0, step), [target, 2])
    assert bench.failure(target) is bench.failure(2)
    assert bench.failure(view) is bench.failure(2)


def test_a_write_through_a_temporary_view_spoils_the_input(bench: Bench) -> None:
    target, odd = bench.put(1, torch.zeros(4)), bench.put(2, torch.ones(7))
    steps = (RestrideStep(0, 2, (2,), (1,), 0), call("aten::add_.Tensor", C, B, results=(-1,)))
    bench.run(routine(2, 0, *steps), [target, odd])
    assert isinstance(bench.failure(target), Failure)


def test_writes_that_the_schema_hides_spoil_as_well(bench: Bench) -> None:
    values = [torch.ones(2, 3), torch.ones(3), torch.ones(3), torch.ones(9), torch.ones(3)]
    for register, value in enumerate(values, 1):
        bench.put(register, value)
    norm = call(
        "aten::native_batch_norm", A, B, C, Operand(3), Operand(4), Const(True), FloatSlot(0), FloatSlot(1),
        results=(5, -1, -1),
    )  # fmt: skip
    bench.run(routine(5, 1, norm, floats=2), [1, 2, 3, 4, 5, 6], [0.1, 1e-5])
    assert bench.failure(4) is bench.failure(5) is bench.failure(6)
    assert isinstance(bench.executor.registers[1], torch.Tensor)


def test_unknown_registers(bench: Bench) -> None:
    bench.put(1, torch.ones(1))
    bench.run(routine(2, 1, call("aten::add.Tensor", A, B, results=(2,))), [1, 99, 2])
    assert bench.failure(2).kind == FailureKind.UNKNOWN_TENSOR
    assert len(bench.reported()) == 1
    answer, _ = bench.executor.read(5, 77)
    assert isinstance(answer, RegisterFailed)
    assert answer.failure.kind == FailureKind.UNKNOWN_TENSOR


@pytest.mark.parametrize(
    "argument", [DtypeArg("quint8"), DtypeArg("nonsense"), LayoutArg("sparse_coo"), MemoryFormatArg("nonsense")]
)
def test_constants_without_a_meaning_are_the_clients_failure(bench: Bench, argument: Argument) -> None:
    bench.put(1, torch.ones(1))
    name = {"DtypeArg": "dtype", "LayoutArg": "layout", "MemoryFormatArg": "memory_format"}[type(argument).__name__]
    bench.run(routine(1, 1, call("aten::_to_copy", A, **{name: argument})), [1, 2])
    assert bench.failure(2).cause == "UnusableArgument"


def malformed() -> Iterator[tuple[str, Program]]:
    """Programs that no dispatcher makes."""
    add = call("aten::add.Tensor", A, A)
    known = ((1, routine(1, 1, add, floats=1)),)
    scale = ((1, routine(1, 1, call("aten::mul.Scalar", A, FloatSlot(0)), floats=1)),)

    def program(define: tuple[tuple[int, Routine], ...], *code: int, floats: Sequence[float] = (0.0,)) -> Program:
        return Program(1, 1, define, (), pack_code(code), list(floats), [])

    yield "unknown routine", program((), 5, 0, 1, 2)
    yield "unknown code", program((), -2, 1)
    yield "cut free", program((), FREE)
    yield "cut instruction", program(known, 1, 0, 1)
    yield "cut at the opcode", program(known, 1)
    yield "cut number", Program(1, 1, (), (), b"1234567", [], [])
    yield (
        "missing floats",
        program(scale, 1, 0, 1, 2, floats=()),
    )
    yield "unknown operator", program(((1, routine(1, 1, CallStep(1 << 20, (), (), (1,)))),))
    yield "negative operator", program(((1, routine(1, 1, CallStep(-1, (), (), (1,)))),))
    yield "negative local", program(((1, routine(1, 1, AliasStep(-5, 1))),))
    yield "negative inputs", program(((1, Routine(-1, 0, 0, 0, (), "")),))


@pytest.mark.parametrize(("what", "program"), list(malformed()), ids=[what for what, _ in malformed()])
def test_malformed_programs_are_the_dispatchers_fault(bench: Bench, what: str, program: Program) -> None:
    bench.put(1, torch.ones(1))
    with pytest.raises(MalformedFrame):
        bench.executor.run(program)


@pytest.mark.parametrize("name", ["aten::rand", "aten::randn"])
def test_random_numbers_depend_on_seed_and_counter_alone(bench: Bench, name: str) -> None:
    step = call(name, ListArg((Const(100),)), results=(0,))
    random = Routine(0, 1, 0, 1, (CallStep(step.op, step.args, (), (0,), True, 0),), name)
    for register, (seed, counter) in enumerate([(1, 0), (1, 1), (2, 0), (1, 0)]):
        torch.rand(register)
        bench.run(random, [register], ints=[counter], seed=seed)
    first, second, third, again = (bench.tensor(register) for register in range(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)


def test_uploads_and_reads(bench: Bench) -> None:
    bench.executor.store(StoreShard(1, (2,), (1,), "int16"), [b"\x01\x00\x02\x00"])
    answer, frames = bench.executor.read(5, 1)
    assert answer == RegisterValue(5, "int16", (2,))
    assert b"".join(map(bytes, frames)) == b"\x01\x00\x02\x00"
    bench.executor.store(StoreShard(2, (2,), (1,), "int16"), [b"\x01"])
    answer, frames = bench.executor.read(6, 2)
    assert isinstance(answer, RegisterFailed)
    assert "upload of int16(2,)" in answer.failure.message
    assert frames == []


def test_forgotten_routines_are_gone(bench: Bench) -> None:
    negate = routine(1, 1, call("aten::neg", A))
    bench.put(1, torch.ones(1))
    bench.executor.run(Program(1, 1, ((1, negate),), (1,), pack_code([1, 0, 1, 2]), [], []))
    with pytest.raises(MalformedFrame):
        bench.executor.run(Program(1, 1, (), (), pack_code([1, 0, 1, 2]), [], []))


def test_reports_count_and_are_bounded(bench: Bench) -> None:
    assert bench.executor.report() is None
    bench.put(1, torch.ones(2, 3))
    for _ in range(MAX_FAILURES + 10):
        bench.run(MATMUL, [1, 1, 2])
    report = bench.executor.report()
    assert report is not None
    assert report.instructions == MAX_FAILURES + 10
    assert report.registers == 2
    assert report.busy > 0
    assert len(report.failures) == MAX_FAILURES
    assert bench.executor.failed == MAX_FAILURES + 10


def test_reset_forgets(bench: Bench) -> None:
    bench.put(1, torch.ones(1))
    bench.run(routine(1, 1, call("aten::neg", A)), [1, 2])
    bench.executor.reset()
    assert bench.executor.registers == {}
    with pytest.raises(MalformedFrame):
        bench.executor.run(Program(1, 1, (), (), pack_code([1, 0, 1, 2]), [], []))
