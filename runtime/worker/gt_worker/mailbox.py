"""Orders in, answers out: the socket, the conversation with the dispatcher, and what waits in between.

Two threads use it, under its lock. The main thread holds the lock while it waits for messages and lets go of it while
it executes an order, so an idle worker answers without any change of threads. Another thread calls `tend` a few times
per heartbeat. It gets the lock only while an order is being executed, however long that takes; then it receives what
comes and gives signs of life.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gt_protocol.errors import HandshakeRefused, MalformedFrame, ProtocolError, SequenceGap
from gt_protocol.link import Link
from gt_protocol.messages import Goodbye, Heartbeat, Refused, Sequenced, Welcome, WorkerAnswer, WorkerOrder
from gt_protocol.programs import DropGroup
from gt_protocol.wire import WORKER_ANSWERS, WORKER_ORDERS, Frames, decode_control, encode_control, total_bytes
from gt_worker.conversation import WINDOW, Answer, Conversation
from gt_worker.transport import Transport

#: The dispatcher is told after this many orders that they are worked off, or as soon as none is left.
ACKNOWLEDGE_EVERY: Final = 16
#: Seconds after which a hello without an answer is said again, over a new connection.
HELLO_AGAIN: Final = 5.0
#: Seconds after which a refused worker says hello again.
PAUSE: Final = 1.0
#: Answers that may wait for credit before further orders have to wait as well.
MAX_WAITING: Final = 64
#: Seconds between looks at the socket before the dispatcher has said how often it wants signs of life.
FIRST_TEND: Final = 0.1


@dataclass(frozen=True, slots=True)
class Arrival:
    """An order that has arrived.

    Attributes:
        envelope: The envelope that it came in.
        order: The order.
        frames: Its raw frames.
        link: The link that it came over; an order of an earlier link is void.
    """

    envelope: Sequenced
    order: WorkerOrder
    frames: Frames
    link: Link


class Mailbox:
    """What a worker receives and sends.

    Args:
        transport: The socket.
        conversation: The worker's side of the conversation.
        on_drop: Called at once with the number of a group that the worker will have to leave; the order comes later.
        log: Where to write what happens.
    """

    def __init__(
        self,
        transport: Transport,
        conversation: Conversation,
        on_drop: Callable[[int], None],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._transport = transport
        self._talk = conversation
        self._on_drop = on_drop
        self._log = log
        self._lock = threading.Lock()
        self._inbox: deque[Arrival] = deque()
        self._answers: deque[tuple[bytes, Frames]] = deque()
        self._fault: ProtocolError | HandshakeRefused | None = None
        self._begun_anew = False
        self._greet_at: float | None = time.monotonic()
        self._greeted = False

    @property
    def begun_anew(self) -> bool:
        """Whether the dispatcher has begun anew, so that all that the worker holds is void."""
        return self._begun_anew

    def accept_new_beginning(self) -> None:
        """Says that the worker has forgotten what it held."""
        self._begun_anew = False

    def next(self, timeout: float) -> Arrival | None:
        """Waits for the next order.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            HandshakeRefused: The dispatcher will never accept this worker.
            ProtocolError: The dispatcher sent what the protocol does not allow.
        """
        with self._lock:
            self._flush()
            full = len(self._answers) >= MAX_WAITING
            if self._receive() == 0 and (full or not self._inbox):
                if self._talk.told != self._talk.done:
                    self._heartbeat()
                self._transport.wait(timeout)
                self._receive()
            self._keep_in_touch()
            if self._fault is not None:
                raise self._fault
            if self._begun_anew or full or not self._inbox:
                return None
            return self._take(self._inbox.popleft())

    def finish(self, arrival: Arrival, answers: Sequence[tuple[WorkerAnswer, Frames]]) -> None:
        """An order has been worked off, and gave these answers."""
        with self._lock:
            if arrival.link is not self._talk.link:
                return
            self._talk.finish(arrival.envelope.sequence)
            if answers:
                self._answers += [(WORKER_ANSWERS.encode(answer), frames) for answer, frames in answers]
                self._flush()
            if self._talk.done - self._talk.told >= ACKNOWLEDGE_EVERY:
                self._heartbeat()

    def post(self, answer: WorkerAnswer) -> None:
        """Sends something that no order asked for. Not while an order is being executed."""
        with self._lock:
            if self._talk.welcomed:
                self._answers.append((WORKER_ANSWERS.encode(answer), []))
                self._flush()

    def tend(self, seconds: float | None = None) -> None:
        """Receives what comes, and gives a sign of life if one is due.

        Args:
            seconds: How long to wait for messages. None does nothing at all if somebody else has the lock, since that
                one is doing the same.
        """
        if self._lock.acquire(blocking=seconds is not None):
            try:
                if seconds:
                    self._transport.wait(seconds)
                self._receive()
                self._keep_in_touch()
            finally:
                self._lock.release()

    def tend_interval(self) -> float:
        """Seconds between two calls of `tend`."""
        pulse = self._talk.pulse
        return FIRST_TEND if pulse is None else pulse.interval / 3

    def ready(self) -> str | None:
        """What is wrong with the connection, or None."""
        pulse = self._talk.pulse
        if pulse is None or not self._talk.welcomed:
            return "the dispatcher has not accepted this worker"
        now = time.monotonic()
        return f"nothing heard of the dispatcher for {pulse.silent_for(now):.0f} s" if pulse.dead(now) else None

    def close(self) -> None:
        """Says goodbye."""
        with self._lock:
            if self._talk.welcomed:
                self._transport.send([encode_control(Goodbye())])
            self._transport.close()

    def _take(self, arrival: Arrival) -> Arrival | None:
        envelope = arrival.envelope
        try:
            new = self._talk.take(envelope.sequence, envelope.received, envelope.limit)
        except SequenceGap:
            # A connection broke in between: what is missing comes again after a new hello.
            self._greet(time.monotonic())
            return None
        return arrival if new else None

    def _receive(self) -> int:
        """Takes what has arrived, as far as there is room; returns how many messages."""
        count = 0
        while len(self._inbox) < WINDOW and self._fault is None:
            frames = self._transport.receive()
            if frames is None:
                break
            count += 1
            try:
                self._handle(frames, time.monotonic())
            except ProtocolError as error:
                self._fault = error
        return count

    def _handle(self, frames: Frames, now: float) -> None:
        message = decode_control(frames)
        talk = self._talk
        if talk.pulse is not None:
            talk.pulse.heard(now)
        if isinstance(message, Welcome):
            self._welcome(message, now)
        elif isinstance(message, Refused):
            self._refused(message, now)
        elif isinstance(message, Goodbye):
            self._greet(now + PAUSE)
        elif not isinstance(message, Sequenced | Heartbeat):
            raise MalformedFrame(f"the dispatcher sent {type(message).__name__}")
        elif talk.welcomed:
            talk.link.acknowledge(message.received, message.limit)
            if isinstance(message, Sequenced):
                order = WORKER_ORDERS.decode(message.payload)
                self._inbox.append(Arrival(message, order, frames[1:], talk.link))
                if isinstance(order, DropGroup):
                    self._on_drop(order.group)

    def _welcome(self, message: Welcome, now: float) -> None:
        fresh, again = self._talk.welcome(message, now)
        # What was not worked off is sent again, or belongs to the past.
        self._inbox.clear()
        if fresh:
            self._begin_anew()
        for frames in again:
            self._send(frames)
        self._greet_at = None
        self._log.info("accepted by the dispatcher", epoch=message.epoch, workers=message.workers, fresh=fresh)

    def _refused(self, message: Refused, now: float) -> None:
        answer = self._talk.refused(message)
        if answer is Answer.IGNORE:
            return
        self._log.warning("refused by the dispatcher", code=message.code, reason=message.message)
        if answer is Answer.GIVE_UP:
            self._fault = HandshakeRefused(message.code, message.message)
        elif answer is Answer.GREET:
            self._greet(now)
        else:
            self._talk.begin_anew()
            self._begin_anew()
            self._greet(now + PAUSE)

    def _begin_anew(self) -> None:
        self._inbox.clear()
        self._answers.clear()
        self._begun_anew = True

    def _greet(self, at: float) -> None:
        self._talk.welcomed = False
        self._greet_at = at
        self._greeted = False

    def _keep_in_touch(self) -> None:
        """Says hello, or gives a sign of life, if it is time."""
        now = time.monotonic()
        pulse = self._talk.pulse
        if self._greet_at is not None:
            if now >= self._greet_at:
                self._say_hello(now)
        elif pulse is not None and pulse.dead(now):
            self._log.warning("the dispatcher is silent", seconds=round(pulse.silent_for(now), 1))
            self._transport.reconnect()
            self._greet(now)
        elif pulse is not None and pulse.due(now):
            self._heartbeat()

    def _say_hello(self, now: float) -> None:
        if self._greeted:
            self._log.warning("no answer from the dispatcher; connecting again")
            self._transport.reconnect()
            self._greeted = False
        if self._transport.send([encode_control(self._talk.hello())]):
            self._greeted = True
            self._greet_at = now + HELLO_AGAIN

    def _heartbeat(self) -> None:
        if self._talk.welcomed:
            self._send([encode_control(Heartbeat(*self._talk.acknowledgement()))])

    def _flush(self) -> None:
        """Sends answers as far as credit allows. Only between orders, since it acknowledges all that were taken."""
        link = self._talk.link
        while self._answers and self._talk.welcomed:
            payload, buffers = self._answers[0]
            if not link.can_send(len(payload) + total_bytes(buffers)):
                break
            self._answers.popleft()
            self._send(self._talk.send(payload, buffers))

    def _send(self, frames: Frames) -> None:
        """Sends; what a broken connection loses is sent again after the next hello."""
        self._transport.send(frames)
        if self._talk.pulse is not None:
            self._talk.pulse.spoke(time.monotonic())
