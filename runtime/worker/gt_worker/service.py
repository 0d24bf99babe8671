"""The worker's loop: takes orders one by one, has them executed, and answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import torch

from gt_protocol.messages import WorkerAnswer
from gt_protocol.programs import DropGroup, FormGroup, Program, StoreShard
from gt_protocol.wire import Frames
from gt_worker.errors import PeerLost
from gt_worker.executor import Executor
from gt_worker.groups import Groups
from gt_worker.mailbox import Arrival, Mailbox

#: How long the loop waits for a message at a time, in seconds; also how soon a stop is noticed.
TICK: Final = 0.1
#: Seconds between reports of work done; failures are reported at once.
REPORT_EVERY: Final = 1.0
#: Seconds that a collective may still take after the process was told to end.
LAST_COLLECTIVE: Final = 5.0
#: An order counts as stuck after so many seconds.
STUCK: Final = 900.0


class Service:
    """One worker at work.

    Args:
        mailbox: Brings orders and takes answers.
        executor: Runs programs.
        groups: The worker's groups.
    """

    def __init__(self, mailbox: Mailbox, executor: Executor, groups: Groups) -> None:
        self._mailbox = mailbox
        self._executor = executor
        self._groups = groups
        self._stop_at: float | None = None
        self._stopped = False
        self._began: float | None = None
        self._report_at = time.monotonic() + REPORT_EVERY

    def stop(self) -> None:
        """Ends `run` after the order that is being executed; may be called from a signal handler."""
        self._stop_at = time.monotonic()

    def run(self) -> None:
        """Works until it is told to stop, by an order or by `stop`.

        Raises:
            HandshakeRefused: The dispatcher will never accept this worker.
            ProtocolError: The dispatcher sent what the protocol does not allow.
        """
        ended = threading.Event()
        pulse = threading.Thread(target=self._keep_pulse, args=(ended,), name="gt-pulse", daemon=True)
        pulse.start()
        try:
            with torch.inference_mode():
                while self._stop_at is None and not self._stopped:
                    self._turn()
        finally:
            ended.set()
            pulse.join()
            self._mailbox.close()

    def chore(self, seconds: float) -> None:
        """Called now and then while a collective waits for peers.

        Args:
            seconds: How long this may wait for messages of the dispatcher.

        Raises:
            PeerLost: There is no reason to wait any longer.
        """
        self._mailbox.tend(seconds)
        if self._mailbox.begun_anew:
            raise PeerLost("the dispatcher has begun anew")
        if self._stop_at is not None and time.monotonic() - self._stop_at > LAST_COLLECTIVE:
            raise PeerLost("this worker is being stopped")

    def healthy(self) -> str | None:
        """What keeps the worker from working, or None."""
        began = self._began
        seconds = 0.0 if began is None else time.monotonic() - began
        return f"an order has been executing for {seconds:.0f} s" if seconds > STUCK else None

    def ready(self) -> str | None:
        """What keeps the worker from being used, or None."""
        return self._mailbox.ready() or self.healthy()

    def _turn(self) -> None:
        arrival = self._mailbox.next(TICK)
        if self._mailbox.begun_anew:
            self._executor.reset()
            self._mailbox.accept_new_beginning()
            return
        if arrival is not None:
            self._began = time.monotonic()
            answers = self._execute(arrival)
            self._began = None
            self._mailbox.finish(arrival, answers)
        if self._executor.has_failures() or time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + REPORT_EVERY
            report = self._executor.report()
            if report is not None:
                self._mailbox.post(report)

    def _execute(self, arrival: Arrival) -> Sequence[tuple[WorkerAnswer, Frames]]:
        order = arrival.order
        if isinstance(order, Program):
            self._executor.run(order)
            return [self._executor.read(request, register) for request, register in order.reads]
        if isinstance(order, StoreShard):
            self._executor.store(order, arrival.frames)
        elif isinstance(order, FormGroup):
            self._groups.form(order)
        elif isinstance(order, DropGroup):
            self._groups.drop(order.group)
        else:
            self._stopped = True
        return ()

    def _keep_pulse(self, ended: threading.Event) -> None:
        """Body of the thread that gives signs of life while the other one executes."""
        while not ended.wait(self._mailbox.tend_interval()):
            self._mailbox.tend()
