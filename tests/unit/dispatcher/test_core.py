"""The core with a virtual clock: handshakes, isolation, loss and recovery of peers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gt_dispatcher.events import AllWorkersHere, Watch
from gt_protocol.arguments import Const, DeviceArg, DtypeArg, ListArg, Operand
from gt_protocol.blocks import FREE, Call, NewTensor, TensorMeta
from gt_protocol.failure import Failure, FailureKind
from gt_protocol.messages import FetchFailed, Heartbeat, RegisterFailed, RegisterValue, Upload, Value, Welcome
from gt_protocol.programs import Program, StoreShard, unpack_code
from tests.support.core_peers import TABLE, Client, Worker, World

META = TensorMeta((2,), (1,), 0, "float32")


def _op(name: str) -> int:
    operator = TABLE.get(name)
    assert operator is not None
    return operator.index


ONES = Call(
    _op("aten::ones"), (ListArg((Const(2),)),), (("device", DeviceArg()), ("dtype", DtypeArg("float32"))),
    (NewTensor(META),),
)  # fmt: skip
NEG = Call(_op("aten::neg"), (Operand(0),), (), (NewTensor(META),))


def _world() -> tuple[World, Worker, Client]:
    world = World()
    return world, Worker(world), Client(world)


def _reads(worker: Worker) -> list[tuple[int, int]]:
    return [read for program in worker.of_type(Program) for read in program.reads]


def _answer(worker: Worker, data: bytes = b"\0" * 8) -> None:
    [*_, (request, _)] = _reads(worker)
    worker.send(RegisterValue(request, "float32", (2,)), [data])


def test_a_program_runs_and_its_value_comes_back() -> None:
    world, worker, client = _world()
    client.block([ONES, NEG], [0, 1, 0, FREE, 0])
    program = worker.of_type(Program)[-1]
    assert [routine.name for _, routine in program.define] == ["aten::ones", "aten::neg"]
    client.read(1, 2)
    _answer(worker, b"12345678")
    value, frames = client.inbox[-1]
    assert value == Value(1, "float32", 0, ((2,),), (1,))
    assert [bytes(frame) for frame in frames] == [b"12345678"]


def test_routines_are_defined_once_and_registers_freed() -> None:
    world, worker, client = _world()
    for base in (1, 3, 5):
        client.block([ONES, NEG], [0, 1, 0, FREE, 0, FREE, 1], base=base)
    programs = worker.of_type(Program)
    assert [len(program.define) for program in programs] == [2, 0, 0]
    codes = [unpack_code(program.code) for program in programs]
    assert codes[0][:2] == codes[1][:2] == codes[2][:2]
    assert not client.world.core.state.sessions[1].directory.tensors


def test_calls_with_true_and_with_one_are_not_the_same() -> None:
    world, worker, client = _world()
    sums = [
        Call(_op("aten::sum.dim_IntList"), (Operand(0), ListArg((Const(0),)), Const(keep)), (), (NewTensor(META),))
        for keep in (True, 1)
    ]
    client.block([ONES], [0])
    for base, call in enumerate(sums, start=2):
        client.block([call], [0, -1], base=base, inputs=[1])
    defined = [routine for program in worker.of_type(Program)[1:] for _, routine in program.define]
    assert [type(routine.steps[0].args[2].value) for routine in defined] == [bool, int]


def test_all_workers_here_is_told_once() -> None:
    world = World(workers=2)
    Worker(world, 0)
    assert not any(isinstance(effect, AllWorkersHere) for effect in world.effects)
    Worker(world, 1)
    assert sum(isinstance(effect, AllWorkersHere) for effect in world.effects) == 1


@pytest.mark.parametrize(
    ("hello", "code", "says"),
    [
        ({"protocol": 99}, "version", "same release"),
        ({"cluster_uid": "other"}, "cluster", "check the address"),
        ({"operators": "other"}, "operators", "same release"),
        ({"epoch": 5}, "epoch", "run again"),
        ({"session": b"short"}, "malformed", "16 bytes"),
        ({"sharding": "version: 1\nsignals: {a: {mesh: none}}\n"}, "sharding", "none"),
        ({"sharding": "version: 1\nsignals: {a: {workers: [7]}}\n"}, "sharding", "7"),
    ],
)
def test_clients_that_do_not_fit_are_refused_with_a_reason(hello: dict, code: str, says: str) -> None:
    world = World(cluster_uid="mine")
    Worker(world)
    client = Client(world, **hello)
    assert client.refusal is not None
    assert client.refusal.code == code
    assert says in client.refusal.message
    assert not world.core.state.sessions


def test_each_client_sees_only_its_own_tensors() -> None:
    world, worker, first = _world()
    second = Client(world)
    first.block([ONES], [0])
    second.read(1, 1)
    answer = second.inbox[-1][0]
    assert isinstance(answer, FetchFailed)
    assert answer.failure.kind == FailureKind.UNKNOWN_TENSOR
    second.block([], [], late_frees=[1])
    first.read(1, 1)
    _answer(worker)
    assert isinstance(first.inbox[-1][0], Value)


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_garbage_costs_its_sender_the_session_and_nobody_else(frames: list[bytes]) -> None:
    world, worker, good = _world()
    good.block([ONES], [0])
    bad = Client(world)
    bad.block([ONES], [0])
    world.give(bad.address, list(frames))
    good.read(1, 1)
    _answer(worker)
    assert isinstance(good.inbox[-1][0], Value)
    assert good.identity in world.core.state.by_identity


@pytest.mark.parametrize(
    "bindings",
    [{"inputs": [5, 6]}, {"floats": [1.0]}, {"ints": [1]}, {"base": 1}],
)
def test_bindings_that_do_not_fit_cost_the_session(bindings: dict) -> None:
    world, worker, client = _world()
    client.block([ONES], [0])
    client.block([ONES], [0], **{"base": 9, **bindings})
    assert client.refusal is not None
    assert not world.core.state.sessions


def test_an_upload_must_fit_its_shape() -> None:
    world, worker, client = _world()
    client.send(Upload(1, META), [b"12345678"])
    assert worker.of_type(StoreShard)[-1].shape == (2,)
    client.send(Upload(2, META), [b"1234"])
    assert client.refusal is not None
    assert "bytes" in client.refusal.message


def test_a_lost_worker_fails_reads_of_what_it_held_and_nothing_else() -> None:
    world = World(workers=2)
    workers = [Worker(world, 0), Worker(world, 1)]
    clients = [Client(world), Client(world)]
    for client in clients:
        client.block([ONES], [0])
        client.read(1, 1)
    world.exit(workers[0])
    lost, kept = (0, 1) if clients[0].inbox else (1, 0)
    failure = clients[lost].inbox[-1][0]
    assert isinstance(failure, FetchFailed)
    assert (failure.failure.kind, failure.failure.worker) == (FailureKind.WORKER_LOST, 0)
    assert not clients[kept].inbox
    _answer(workers[1])
    assert isinstance(clients[kept].inbox[-1][0], Value)
    clients[lost].block([NEG], [0, -1], base=2, inputs=[1])
    clients[lost].read(2, 2)
    assert clients[lost].inbox[-1][0].failure.kind == FailureKind.WORKER_LOST
    clients[lost].block([ONES], [0], base=3)
    clients[lost].read(3, 3)
    _answer(workers[1])
    assert isinstance(clients[lost].inbox[-1][0], Value)


def test_without_workers_instructions_fail_with_advice_and_later_ones_work() -> None:
    world = World()
    client = Client(world)
    client.block([ONES], [0])
    client.read(1, 1)
    assert "no worker" in client.inbox[-1][0].failure.message
    worker = Worker(world)
    client.block([ONES], [0], base=2)
    client.read(2, 2)
    _answer(worker)
    assert isinstance(client.inbox[-1][0], Value)


def test_a_failed_register_reaches_the_reader() -> None:
    world, worker, client = _world()
    client.block([ONES], [0])
    client.read(1, 1)
    failure = Failure("operator", "boom", "aten::ones")
    worker.send(RegisterFailed(_reads(worker)[-1][0], failure))
    assert client.inbox[-1][0] == FetchFailed(1, failure)


def test_a_client_resumes_over_a_new_connection_without_loss_or_repeat() -> None:
    world, worker, client = _world()
    client.block([ONES], [0])
    client.read(1, 1, lost=True)
    client.reconnect()
    client.heartbeat()
    assert client.refusal is not None
    assert client.refusal.code == "unknown-peer"
    client.say_hello(epoch=77)
    assert len(_reads(worker)) == 1
    _answer(worker)
    assert isinstance(client.inbox[-1][0], Value)
    assert len(world.core.state.sessions) == 1


def test_a_worker_resumes_over_a_new_connection() -> None:
    world, worker, client = _world()
    worker.reconnect()
    client.block([ONES], [0])
    assert not worker.of_type(Program)
    worker.say_hello(epoch=77)
    assert len(worker.of_type(Program)) == 1


def test_silence_ends_workers_at_once_and_sessions_after_a_grace() -> None:
    world, worker, client = _world()
    for _ in range(12):
        world.pass_time(1.0)
        client.heartbeat()
    assert not len(world.core.state.pool)
    assert world.core.state.sessions
    world.pass_time(11)
    assert world.core.state.sessions
    world.pass_time(31)
    assert not world.core.state.sessions


def test_heartbeats_go_out_when_due() -> None:
    world, worker, client = _world()
    before = len(client.controls)
    world.pass_time(0.5)
    assert len(client.controls) == before
    world.pass_time(0.6)
    assert isinstance(client.controls[-1], Heartbeat)


def test_the_end_of_a_clients_process_frees_its_tensors_at_once() -> None:
    world, worker, client = _world()
    client.block([ONES], [0])
    world.exit(client)
    assert not world.core.state.sessions
    code = unpack_code(worker.of_type(Program)[-1].code)
    assert code[0] == -1


def test_a_second_worker_of_an_index_waits_until_the_first_falls_silent() -> None:
    world = World()
    Worker(world)
    other = Worker(world)
    assert other.refusal is not None
    assert other.refusal.code == "duplicate"
    world.pass_time(4.0)
    other.say_hello()
    assert isinstance(other.controls[-2], Welcome) or isinstance(other.controls[-1], Welcome)


def test_local_peers_are_watched_by_process() -> None:
    world = World()
    Worker(world, pid=41)
    Client(world, pid=42)
    assert [effect.pid for effect in world.effects if isinstance(effect, Watch)] == [41, 42]


def test_a_client_can_not_run_ahead_of_its_workers() -> None:
    world, worker, client = _world()
    sent = 0
    while client.link.can_send():
        client.block([ONES], [0, FREE, 0], base=1 + sent)
        sent += 1
        assert sent < 1000
    assert sent <= 64
    worker.heartbeat()
    world.pass_time(1.1)
    assert client.link.can_send()
