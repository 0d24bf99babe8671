"""A session: the client's side of the ordered link to a dispatcher, and the reads that wait for values."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gt.errors import ConnectError, GTTimeoutError, RemoteError, SessionLost
from gt.sources import format_source
from gt.transport import Transport
from gt_protocol.blocks import Bindings, TensorMeta
from gt_protocol.errors import MalformedFrame, ProtocolError, SequenceGap
from gt_protocol.failure import Failure
from gt_protocol.heartbeat import Pulse
from gt_protocol.keys import PeerKeys
from gt_protocol.link import Link
from gt_protocol.messages import (
    PROTOCOL_VERSION,
    BlockMessage,
    ClientHello,
    ClientPayload,
    Control,
    FetchFailed,
    Goodbye,
    Heartbeat,
    RefusalCode,
    Refused,
    Sequenced,
    Upload,
    Value,
    Welcome,
)
from gt_protocol.operators import operator_table
from gt_protocol.wire import (
    CLIENT_ANSWERS,
    CLIENT_PAYLOADS,
    Buffer,
    Frames,
    chunk,
    decode_control,
    encode_control,
    total_bytes,
)

#: Answers that the dispatcher may have in flight to us.
ANSWER_WINDOW: Final = 256
#: Instructions whose source lines are kept for error reports.
KEPT_SOURCES: Final = 1 << 16
#: Longest wait on the socket's descriptor before looking anew, in seconds.
LOOK: Final = 0.05
#: Pause between two looks at how the other side is, in seconds.
KEEP_ALIVE: Final = 0.02
#: Pause between two attempts to say hello, in seconds.
HELLO_PAUSE: Final = 0.25


@dataclass(frozen=True)
class FetchedValue:
    """A tensor's value, as parts to be concatenated.

    Attributes:
        dtype: Element type.
        axis: Axis along which the parts are concatenated.
        parts: Shape and raw frames of each part, dense, in row-major order.
    """

    dtype: str
    axis: int
    parts: list[tuple[tuple[int, ...], list[Buffer]]]


@dataclass(frozen=True)
class SessionSettings:
    """What a session is made with.

    Attributes:
        address: The dispatcher's endpoint for clients.
        cluster_uid: The cluster that is meant, or empty for any.
        keys: CURVE keys, or None.
        sharding: Text of the sharding file, or empty.
        sharding_source: What to call that file in messages.
        timeout: Seconds that a read waits for its value.
        connect_timeout: Seconds that connecting may take.
        watch: Tells why the local fleet has ended, or None while it runs.
    """

    address: str
    cluster_uid: str = ""
    keys: PeerKeys | None = None
    sharding: str = ""
    sharding_source: str = ""
    timeout: float = 300.0
    connect_timeout: float = 30.0
    watch: Callable[[], str | None] = lambda: None


class Session:
    """One session with a dispatcher.

    All methods may be called from any thread. None but `fetch` (and, for want of credit, the sending ones) waits.

    Args:
        settings: What to connect to, and how.

    Raises:
        ConnectError: The dispatcher does not answer, or refuses.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self.settings = settings
        self.timeout = settings.timeout
        self._pid = os.getpid()
        self._identity = secrets.token_bytes(16)
        self._lock = threading.RLock()
        self._link = Link(ANSWER_WINDOW)
        self._pulse = Pulse(1.0, 10.0, time.monotonic())
        self._epoch = 0
        self._live = False
        self._said_hello = -HELLO_PAUSE
        self._kept_alive = 0.0
        self._lost: Exception | None = None
        self._next_request = 1
        self._answers: dict[int, tuple[Value | FetchFailed, Frames] | None] = {}
        self._sources: OrderedDict[int, tuple[Any, ...]] = OrderedDict()
        self._kept_sources = 0
        self._attempt: tuple[Bindings | None, int] = (None, 0)
        self._closing = threading.Event()
        self.workers = 0
        self._transport = Transport(settings.address, settings.keys)
        try:
            self._connect()
        except BaseException:
            self._transport.close(linger=0)
            raise
        self._keeper = threading.Thread(target=self._keep, name="gt-session", daemon=True)
        self._keeper.start()

    def send_block(self, body: bytes, bindings: Bindings, sources: tuple[Any, ...]) -> None:
        """Sends a block of instructions.

        A call that was interrupted may be repeated with the same bindings: a block that was taken is not sent twice.

        Args:
            body: Its encoded body.
            bindings: Its bindings.
            sources: Source line of each instruction, for `gt.sources.format_source`.

        Raises:
            GTTimeoutError: The fleet did not take it in time.
            SessionLost: The session has ended.
        """
        with self._lock:
            attempt, number = self._attempt
            if attempt is bindings and self._link.sent >= number:
                return
            self._attempt = bindings, self._link.sent + 1
            self._sources[self._link.sent + 1] = sources
            self._kept_sources += len(sources)
            while self._kept_sources > KEPT_SOURCES:
                self._kept_sources -= len(self._sources.popitem(last=False)[1])
            self._send(BlockMessage(bindings), [body])

    def upload(self, tensor: int, meta: TensorMeta, data: memoryview) -> None:
        """Sends a tensor's bytes, dense, in row-major order; they must not change afterwards.

        Raises:
            GTTimeoutError: The fleet did not take it in time.
            SessionLost: The session has ended.
        """
        with self._lock:
            self._send(Upload(tensor, meta), chunk(data))

    def fetch(self, ask: Callable[[int], None]) -> FetchedValue:
        """Waits for a tensor's value.

        Args:
            ask: Sends a block that reads the tensor under the number that it is called with.

        Raises:
            RemoteError: It has none, since an instruction failed.
            GTTimeoutError: It did not come in time.
            SessionLost: The session has ended.
        """
        deadline = time.monotonic() + self.timeout
        with self._lock:
            request = self._next_request
            self._next_request += 1
            self._answers[request] = None
        try:
            ask(request)
            self._wait(lambda: self._answers[request] is not None, deadline, "a value")
            with self._lock:
                answered = self._answers[request]
        finally:
            with self._lock:
                del self._answers[request]
        assert answered is not None
        answer, frames = answered
        if isinstance(answer, FetchFailed):
            raise self._remote_error(answer.failure)
        return _unpack(answer, frames)

    def close(self) -> None:
        """Ends the session; its tensors are freed. May be called twice."""
        if self._closing.is_set() or os.getpid() != self._pid:
            return
        self._closing.set()
        self._keeper.join(timeout=5)
        with self._lock:
            if self._live and self._lost is None:
                self._transport.send([encode_control(Goodbye())])
            self._lost = self._lost or SessionLost("the session has been closed")
            self._transport.close()

    def _send(self, payload: ClientPayload, buffers: Frames) -> None:
        if os.getpid() != self._pid:
            raise SessionLost("a forked process can't use its parent's session: use fleet tensors in one process only")
        data = CLIENT_PAYLOADS.encode(payload)
        size = len(data) + total_bytes(buffers)
        if not self._ready(size):
            self._wait(lambda: self._ready(size), time.monotonic() + self.timeout, "the fleet to catch up")
        frames = self._link.send(data, buffers)
        if not self._transport.send(frames):
            # The link keeps it, and it goes again after the next welcome.
            self._live = False
        self._pulse.spoke(time.monotonic())

    def _ready(self, size: int) -> bool:
        if self._lost is not None:
            raise self._lost
        return self._live and self._link.can_send(size)

    def _wait(self, done: Callable[[], bool], deadline: float, what: str) -> None:
        """Waits until `done()`, taking in what comes meanwhile."""
        while True:
            with self._lock:
                self._pump()
                if done():
                    return
                if self._lost is not None:
                    raise self._lost
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise GTTimeoutError(
                    f"waited {self.timeout:g} s for {what}; the session goes on. "
                    "If the work is that long, set GT_TIMEOUT (seconds) higher"
                )
            self._transport.wait(min(LOOK, remaining))

    def _connect(self) -> None:
        deadline = time.monotonic() + self.settings.connect_timeout
        while True:
            with self._lock:
                self._pump()
                if self._lost is not None:
                    raise ConnectError(str(self._lost)) from self._lost
                if self._live:
                    return
            if time.monotonic() > deadline:
                raise ConnectError(
                    f"no answer from {self.settings.address} within {self.settings.connect_timeout:g} s: "
                    "check the address, that the cluster is Ready, and that GT_KEYS holds its keys"
                )
            self._transport.wait(LOOK)

    def _keep(self) -> None:
        """Takes part in the conversation while the program is busy elsewhere."""
        while not self._closing.wait(min(self._pulse.interval, 1.0) / 2):
            with self._lock:
                self._pump()
                if self._lost is not None:
                    return

    def _pump(self) -> None:
        """Takes in all that has come. The lock is held."""
        now = time.monotonic()
        while self._lost is None and (frames := self._transport.receive()) is not None:
            self._pulse.heard(now)
            try:
                self._take(decode_control(frames), frames[1:])
            except SequenceGap:
                self._live = False
            except ProtocolError as error:
                self._lost = SessionLost(f"the dispatcher broke the protocol: {error}")
        if self._lost is None and (now - self._kept_alive >= KEEP_ALIVE or not self._live):
            self._kept_alive = now
            self._keep_alive(now)

    def _keep_alive(self, now: float) -> None:
        """Notices silence, says hello anew where that is due, and gives signs of life."""
        reason = self.settings.watch()
        if reason is not None:
            self._lost = SessionLost(f"the local fleet has ended: {reason}")
            return
        if self._epoch and self._pulse.dead(now):
            silence = self._pulse.silent_for(now)
            if silence > 3 * self._pulse.silence:
                self._lost = SessionLost(f"the dispatcher has been silent for {silence:.0f} s; its tensors are gone")
                return
            self._live = False
        if not self._live:
            self._hello()
        elif self._pulse.due(now) or self._link.owes_acknowledgement(ANSWER_WINDOW // 8):
            self._heartbeat(now)

    def _take(self, message: Control, frames: Frames) -> None:
        if isinstance(message, Sequenced):
            if self._link.receive(message.sequence, message.received, message.limit):
                answer = CLIENT_ANSWERS.decode(message.payload)
                if answer.request in self._answers:
                    self._answers[answer.request] = (answer, frames)
                self._link.finish(message.sequence)
        elif isinstance(message, Heartbeat):
            self._link.acknowledge(message.received, message.limit)
        elif isinstance(message, Welcome):
            self._welcome(message)
        elif isinstance(message, Refused):
            self._refused(message)
        else:
            raise MalformedFrame(f"the dispatcher sent {type(message).__name__}")

    def _welcome(self, welcome: Welcome) -> None:
        if self._live:
            return
        self._epoch = welcome.epoch
        self.workers = welcome.workers
        now = time.monotonic()
        self._pulse = Pulse(welcome.heartbeat, welcome.silence, now)
        for frames in self._link.resume(welcome.received, welcome.limit):
            self._transport.send(frames)
        self._live = True
        self._heartbeat(now)

    def _refused(self, refused: Refused) -> None:
        if refused.code == RefusalCode.UNKNOWN_PEER:
            self._live = False
            self._hello()
            return
        self._live = False
        self._lost = SessionLost(f"refused ({refused.code}): {refused.message}")

    def _hello(self) -> None:
        now = time.monotonic()
        if now - self._said_hello < HELLO_PAUSE:
            return
        self._said_hello = now
        local = self.settings.address.startswith("ipc://")
        hello = ClientHello(
            protocol=PROTOCOL_VERSION,
            cluster_uid=self.settings.cluster_uid,
            session=self._identity,
            epoch=self._epoch,
            received=self._link.received,
            operators=operator_table().digest,
            sharding=self.settings.sharding,
            sharding_source=self.settings.sharding_source,
            pid=self._pid if local else 0,
        )
        self._transport.send([encode_control(hello)])

    def _heartbeat(self, now: float) -> None:
        self._transport.send([encode_control(Heartbeat(*self._link.announcement()))])
        self._pulse.spoke(now)

    def _remote_error(self, failure: Failure) -> RemoteError:
        with self._lock:
            sources = self._sources.get(failure.block, ())
        known = 0 <= failure.instruction < len(sources)
        return RemoteError(failure, format_source(sources[failure.instruction]) if known else "")


def _unpack(value: Value, frames: Frames) -> FetchedValue:
    parts: list[tuple[tuple[int, ...], list[Buffer]]] = []
    at = 0
    for shape, count in zip(value.shapes, value.frames, strict=True):
        parts.append((shape, frames[at : at + count]))
        at += count
    return FetchedValue(value.dtype, value.axis, parts)
