"""A worker as a process: how it starts, keeps in touch, comes back, and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import zmq

from gt_protocol.arguments import Const, ListArg, Operand
from gt_protocol.failure import Failure, FailureKind
from gt_protocol.messages import Refused
from gt_protocol.programs import FREE, AllReduceStep, CallStep, Program, Routine, Stop, pack_code
from gt_protocol.wire import WORKER_ORDERS, encode_control
from tests.support.worker_fleet import WorkerFleet


def call(fleet: WorkerFleet, name: str, *args: Operand | Const | ListArg, inputs: int = 1) -> Routine:
    """A routine of one call with one result."""
    operator = fleet.table.get(name)
    assert operator is not None
    return Routine(inputs, 1, 0, 0, (CallStep(operator.index, args, (), (inputs,)),), name)


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the shared worker's health and metrics."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[WorkerFleet]:
    """One worker, shared by tests that leave it alive."""
    with WorkerFleet(1, tmp_path_factory.mktemp("shared"), GT_HTTP_PORT=str(port)) as fleet:
        yield fleet
        process = fleet.peers[0].process
        process.send_signal(signal.SIGTERM)
        fleet.until(lambda: fleet.peers[0].said_goodbye, "goodbye")
        assert process.wait(10) == 0


def test_it_introduces_itself_executes_and_reports(shared: WorkerFleet) -> None:
    hello = shared.peers[0].hellos[0]
    assert (hello.index, hello.device, hello.pid) == (0, "cpu", shared.peers[0].process.pid)
    source, target, bad = shared.store(0, torch.ones(2, 3)), shared.number(), shared.number()
    shared.run(0, call(shared, "aten::neg", Operand(0)), [source, target])
    shared.run(0, call(shared, "aten::mm", Operand(0), Operand(0)), [source, bad])
    value, failure = shared.fetch(0, target), shared.fetch(0, bad)
    assert isinstance(value, torch.Tensor)
    assert value.tolist() == [[-1] * 3] * 2
    assert isinstance(failure, Failure)
    shared.until(lambda: any(report.failures for _, report in shared.reports()), "a report")
    assert [report.failures for _, report in shared.reports() if report.failures] == [((1, failure),)]


def test_signs_of_life_and_readiness_while_a_kernel_runs(shared: WorkerFleet, port: int) -> None:
    """One kernel occupies the main thread for a second and more; the heartbeat is 0.2 s."""
    peer = shared.peers[0]
    value = torch.rand(2000, 4)
    began = time.monotonic()
    torch.cdist(value, value, 3.0)
    batch = 1 + int(1.5 / (time.monotonic() - began))
    source, target, total = shared.store(0, value.expand(batch, 2000, 4)), shared.number(), shared.number()
    slow = call(shared, "aten::cdist", Operand(0), Operand(0), Const(3), Const(None))
    began, heard = time.monotonic(), len(peer.heartbeats)
    shared.run(0, slow, [source, target])
    shared.run(0, call(shared, "aten::sum", Operand(0)), [target, total])
    assert isinstance(shared.fetch(0, total), torch.Tensor)
    assert len(peer.heartbeats) - heard >= 2 * (time.monotonic() - began)
    assert get(port, "/readyz") == (200, "ok\n")
    assert get(port, "/healthz") == (200, "ok\n")
    status, metrics = get(port, "/metrics")
    assert status == 200
    assert "gt_worker_instructions_total" in metrics
    shared.order(0, Program(1, 1, (), (), pack_code([FREE, target, FREE, source]), [], []))


def test_a_lost_connection_resumes(shared: WorkerFleet) -> None:
    """An order is lost on its way; the worker asks for it by a new hello, and all goes on where it was."""
    peer = shared.peers[0]
    source, target = shared.store(0, torch.ones(2)), shared.number()
    shared.until(lambda: peer.link.in_flight == 0, "acknowledgement")
    hellos, done = len(peer.hellos), peer.link.acknowledged
    peer.link.send(WORKER_ORDERS.encode(Program(1, 1, (), (), pack_code([FREE, 12345]), [], [])))
    shared.run(0, call(shared, "aten::neg", Operand(0)), [source, target])
    value = shared.fetch(0, target)
    assert isinstance(value, torch.Tensor)
    assert value.tolist() == [-1, -1]
    assert len(peer.hellos) == hellos + 1
    assert peer.hellos[-1].incarnation == peer.hellos[0].incarnation
    assert (peer.hellos[-1].epoch, peer.hellos[-1].received) == (shared.epoch, done)


def test_another_epoch_begins_anew(shared: WorkerFleet) -> None:
    peer = shared.peers[0]
    source = shared.store(0, torch.ones(2))
    assert isinstance(shared.fetch(0, source), torch.Tensor)
    hellos = len(peer.hellos)
    shared.epoch += 1
    shared.socket.send_multipart([peer.routing, encode_control(Refused("unknown-peer", "say hello first"))])
    shared.until(lambda: len(peer.hellos) > hellos, "another hello")
    gone = shared.fetch(0, source)
    assert isinstance(gone, Failure)
    assert gone.kind == FailureKind.UNKNOWN_TENSOR


def test_memory_does_not_grow(shared: WorkerFleet) -> None:
    """Uploads, instructions, failures, routines and reads come and go without a trace."""
    peer = shared.peers[0]
    negate = call(shared, "aten::neg", Operand(0))
    clash = call(shared, "aten::mm", Operand(0), Operand(0))

    def turn() -> None:
        source, target, bad = shared.store(0, torch.ones(64, 1024)), shared.number(), shared.number()
        shared.run(0, negate, [source, target])
        shared.run(0, clash, [source, bad])
        assert isinstance(shared.fetch(0, target), torch.Tensor)
        free = [code for register in (source, target, bad) for code in (FREE, register)]
        shared.order(0, Program(1, 1, (), (), pack_code(free), [], []))
        peer.answers.clear()

    for _ in range(100):
        turn()
    before = resident(peer.process.pid)
    for _ in range(400):
        turn()
    assert resident(peer.process.pid) - before < 4 << 20


def test_the_order_to_stop_comes_after_what_was_before(tmp_path: Path) -> None:
    with WorkerFleet(1, tmp_path) as fleet:
        source, target = fleet.store(0, torch.ones(2)), fleet.number()
        fleet.run(0, call(fleet, "aten::neg", Operand(0)), [source, target])
        request = fleet.request(0, target)
        fleet.order(0, Stop())
        assert isinstance(fleet.answer(0, request), torch.Tensor)
        fleet.until(lambda: fleet.peers[0].said_goodbye, "goodbye")
        assert fleet.peers[0].process.wait(10) == 0


def test_it_is_not_ready_before_it_is_accepted(tmp_path: Path, port: int) -> None:
    context = zmq.Context()
    port += 1
    router = context.socket(zmq.ROUTER)
    router.bind(f"ipc://{tmp_path}/nobody")
    env = {**os.environ, "GT_DISPATCHER": f"ipc://{tmp_path}/nobody", "GT_HTTP_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "gt_worker"], env=env)
    try:
        assert router.poll(60_000)
        routing, _ = router.recv_multipart()
        assert get(port, "/readyz") == (503, "the dispatcher has not accepted this worker\n")
        router.send_multipart([routing, encode_control(Refused("version", "install the same release"))])
        assert process.wait(20) == 2
    finally:
        process.kill()
        process.wait()
        router.close(linger=0)
        context.term()


@pytest.mark.parametrize("payload", ["garbage", "unknown routine"])
def test_a_broken_protocol_ends_it(tmp_path: Path, payload: str) -> None:
    with WorkerFleet(1, tmp_path) as fleet:
        peer = fleet.peers[0]
        if payload == "garbage":
            fleet.socket.send_multipart([peer.routing, b"\xc1"])
        else:
            fleet.order(0, Program(1, 1, (), (), pack_code([99, 0, 1]), [], []))
        assert peer.process.wait(20) == 3


def test_a_kill_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").is_dir() else set()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with WorkerFleet(2, tmp_path, TMPDIR=str(scratch)) as fleet:
        group, targets = fleet.group(0, 1), []
        for index in range(2):
            register, target = fleet.store(index, torch.ones(1 << 18)), fleet.number()
            fleet.run(index, Routine(1, 1, 0, 0, (AllReduceStep(group, 0, 1, "sum"),), "test"), [register, target])
            targets.append(target)
        assert all(isinstance(fleet.fetch(index, target), torch.Tensor) for index, target in enumerate(targets))
        for peer in fleet.peers:
            peer.process.kill()
            peer.process.wait()
    assert list(scratch.iterdir()) == []
    after = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").is_dir() else set()
    assert after <= before


def resident(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
