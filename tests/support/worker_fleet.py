"""Real worker processes, driven by a small dispatcher that does what a test says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import torch
import zmq

from gt_protocol.failure import Failure
from gt_protocol.link import Link
from gt_protocol.messages import (
    Control,
    Goodbye,
    Heartbeat,
    RegisterFailed,
    RegisterValue,
    Sequenced,
    Welcome,
    WorkerAnswer,
    WorkerHello,
    WorkerOrder,
    WorkerReport,
)
from gt_protocol.operators import operator_table
from gt_protocol.programs import FormGroup, Member, Program, Routine, StoreShard, pack_code
from gt_protocol.wire import WORKER_ANSWERS, WORKER_ORDERS, Buffer, Frames, decode_control, encode_control
from gt_worker.values import dtype_of, to_frames

DEADLINE = 60.0
EPOCH = 7


@dataclass
class Peer:
    """What the test's dispatcher knows of one worker."""

    index: int
    process: subprocess.Popen[bytes]
    routing: bytes = b""
    hellos: list[WorkerHello] = field(default_factory=list)
    link: Link = field(default_factory=lambda: Link(256))
    answers: list[tuple[WorkerAnswer, Frames]] = field(default_factory=list)
    heartbeats: list[float] = field(default_factory=list)
    said_goodbye: bool = False


class WorkerFleet:
    """Some workers. Leaving the context ends them."""

    def __init__(self, count: int, folder: Path, **env: str) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.endpoint = f"ipc://{folder}/workers"
        self.socket.bind(self.endpoint)
        self.epoch = EPOCH
        self._heartbeat_at = 0.0
        self.table = operator_table()
        self._numbers = iter(range(1, 1 << 30))
        self.peers = [Peer(index, self._start(index, env)) for index in range(count)]

    def __enter__(self) -> WorkerFleet:
        self.until(lambda: all(peer.hellos for peer in self.peers), "all workers say hello")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for peer in self.peers:
            if peer.process.poll() is None:
                peer.process.terminate()
        for peer in self.peers:
            try:
                peer.process.wait(15)
            except subprocess.TimeoutExpired:
                peer.process.kill()
                peer.process.wait()
        self.socket.close(linger=0)
        self._context.term()

    def number(self) -> int:
        """A number that nothing else has: of a register, routine, group or request."""
        return next(self._numbers)

    def order(self, index: int, order: WorkerOrder, buffers: Sequence[Buffer] = ()) -> None:
        """Sends an order."""
        peer = self.peers[index]
        self.until(lambda: peer.link.can_send(), "credit")
        self.socket.send_multipart([peer.routing, *peer.link.send(WORKER_ORDERS.encode(order), list(buffers))])

    def store(self, index: int, tensor: torch.Tensor, strides: tuple[int, ...] | None = None) -> int:
        """Uploads a tensor; returns its register."""
        register = self.number()
        dtype, shape, frames = to_frames(tensor)
        self.order(index, StoreShard(register, shape, strides or tensor.stride(), dtype), frames)
        return register

    def run(
        self,
        index: int,
        routine: Routine,
        registers: Sequence[int],
        floats: Iterable[float] = (),
        ints: Iterable[int] = (),
        seed: int = 0,
    ) -> None:
        """Runs one routine once."""
        number = self.number()
        code = pack_code([number, 0, *registers])
        program = Program(1, 1, ((number, routine),), (number,), code, list(floats), list(ints), seed)
        self.order(index, program)

    def group(self, *members: int) -> int:
        """Forms a group."""
        number = self.number()
        order = FormGroup(number, tuple(Member(index, self.peers[index].hellos[-1].store) for index in members))
        for index in members:
            self.order(index, order)
        return number

    def request(self, index: int, register: int) -> int:
        """Asks for a value without waiting for it."""
        number = self.number()
        self.order(index, Program(1, 1, (), (), b"", [], [], reads=[(number, register)]))
        return number

    def answer(self, index: int, request: int, within: float = DEADLINE) -> torch.Tensor | Failure:
        """Waits for the answer to a request."""
        peer = self.peers[index]

        def find() -> tuple[WorkerAnswer, Frames] | None:
            for answer in peer.answers:
                if not isinstance(answer[0], WorkerReport) and answer[0].request == request:
                    return answer
            return None

        self.until(lambda: find() is not None, f"worker {index} answers", within)
        found = find()
        assert found is not None
        peer.answers.remove(found)
        answer, frames = found
        if isinstance(answer, RegisterFailed):
            return answer.failure
        assert isinstance(answer, RegisterValue)
        memory = bytearray().join(frames)
        dtype = dtype_of(answer.dtype)
        if not memory:
            return torch.empty(answer.shape, dtype=dtype)
        return torch.frombuffer(memory, dtype=dtype).view(answer.shape)

    def fetch(self, index: int, register: int, within: float = DEADLINE) -> torch.Tensor | Failure:
        """A register's value."""
        return self.answer(index, self.request(index, register), within)

    def reports(self) -> Iterator[tuple[int, WorkerReport]]:
        """All reports that have come in."""
        for peer in self.peers:
            for answer, _ in peer.answers:
                if isinstance(answer, WorkerReport):
                    yield peer.index, answer

    def until(self, done: object, what: str, within: float = DEADLINE) -> None:
        """Serves the workers until something is so."""
        assert callable(done)
        end = time.monotonic() + within
        while not done():
            left = end - time.monotonic()
            assert left > 0, f"not within {within} s: {what}"
            self.serve(min(left, 0.1))

    def serve(self, timeout: float) -> None:
        """Takes what the workers send, and gives signs of life."""
        now = time.monotonic()
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + 1.0
            for peer in self.peers:
                if peer.hellos:
                    self._tell(peer)
        if not self.socket.poll(int(timeout * 1000)):
            return
        routing, *frames = self.socket.recv_multipart()
        self.take(routing, decode_control(frames), list(frames[1:]))

    def take(self, routing: bytes, message: Control, frames: Frames) -> None:
        """Takes one message."""
        if isinstance(message, WorkerHello):
            self._hello(routing, message)
            return
        peer = next((peer for peer in self.peers if peer.routing == routing), None)
        if peer is None:
            return  # from a connection that has been given up
        if isinstance(message, Heartbeat):
            peer.heartbeats.append(time.monotonic())
            peer.link.acknowledge(message.received, message.limit)
        elif isinstance(message, Sequenced):
            if peer.link.receive(message.sequence, message.received, message.limit):
                peer.link.finish(message.sequence)
                peer.answers.append((WORKER_ANSWERS.decode(message.payload), frames))
                self._tell(peer)
        elif isinstance(message, Goodbye):
            peer.said_goodbye = True

    def _hello(self, routing: bytes, message: WorkerHello) -> None:
        peer = self.peers[message.index]
        peer.routing = routing
        if message.epoch != self.epoch:
            peer.link = Link(256)
        peer.hellos.append(message)
        received, limit = peer.link.announcement()
        welcome = Welcome(self.epoch, "", received, limit, len(self.peers), 0.2, 10.0)
        self.socket.send_multipart([routing, encode_control(welcome)])
        if message.epoch == self.epoch:
            for frames in peer.link.resume(message.received, message.received + 16):
                self.socket.send_multipart([routing, *frames])
        else:
            peer.link.acknowledge(0, 16)

    def _tell(self, peer: Peer) -> None:
        self.socket.send_multipart([peer.routing, encode_control(Heartbeat(*peer.link.announcement()))])

    def _start(self, index: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
        variables = {
            **os.environ,
            "GT_DISPATCHER": self.endpoint,
            "GT_WORKER_INDEX": str(index),
            "GT_COLLECTIVE_TIMEOUT": "20",
            "GT_LOG_LEVEL": "WARNING",
            "OMP_NUM_THREADS": "1",
            **env,
        }
        return subprocess.Popen([sys.executable, "-m", "gt_worker"], env=variables)
