"""Runs one job's process, and passes on the signals that are for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gt_cli.local import guard

#: Seconds that a job gets to end by itself after Ctrl-C or SIGTERM.
GRACE: Final = 5.0
#: Seconds between looks at the process where no signal tells of its end.
CHECK: Final = 1.0

#: `si_code` of a signal that the terminal sent, and so to the job as well.
_SI_KERNEL: Final = 0x80
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AWAITED: Final = (*_ENDING, signal.SIGCHLD)


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        status: Exit status; 128 + number for a signal.
        interrupted: The signal that this program was told to end by, or None.
    """

    status: int
    interrupted: signal.Signals | None = None


def run_process(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Outcome:
    """Runs a command on this terminal until it ends, and nothing of it is left.

    Ctrl-C, SIGTERM and SIGHUP reach it; if it still runs after a grace period, or at the second of them, it is killed.

    Args:
        command: Absolute path of a program, and its arguments.
        env: Its environment.
        folder: Its working directory.
    """
    with _awaiting_signals():
        reading, orders = os.pipe()
        try:
            process = subprocess.Popen(
                # -I and -S: the guard needs neither the user's paths nor installed packages.
                [sys.executable, "-I", "-S", str(Path(guard.__file__).absolute()), str(reading), *command],
                env=env,
                cwd=folder,
                pass_fds=[reading],
            )
        except BaseException:
            os.close(orders)
            raise
        finally:
            os.close(reading)
        return _Watch(process, orders).run()


class _Watch:
    """Waits for the guard's end and for signals to this process, both at once."""

    def __init__(self, process: subprocess.Popen[bytes], orders: int) -> None:
        self._process = process
        self._orders = orders
        self._interrupted: signal.Signals | None = None
        self._deadline: float | None = None

    def run(self) -> Outcome:
        try:
            while (status := self._process.poll()) is None:
                left = CHECK if self._deadline is None else max(0.0, self._deadline - time.monotonic())
                info = signal.sigtimedwait(_AWAITED, left)
                if info is not None:
                    self._take(info)
                elif self._deadline is not None:
                    self._kill()
        finally:
            self._close()
        if self._interrupted is not None:
            # On the way out already: a further Ctrl-C must not break the clean-up off.
            for number in _ENDING:
                signal.signal(number, signal.SIG_IGN)
            return Outcome(128 + self._interrupted, self._interrupted)
        return Outcome(128 - status if status < 0 else status)

    def _take(self, info: signal.struct_siginfo) -> None:
        if info.si_signo == signal.SIGCHLD:
            return
        if self._interrupted is not None:
            self._kill()
        else:
            self._interrupted = signal.Signals(info.si_signo)
            self._deadline = time.monotonic() + GRACE
            if info.si_code != _SI_KERNEL:
                self._order(info.si_signo)

    def _order(self, number: int) -> None:
        try:
            os.write(self._orders, bytes([number]))
        except BrokenPipeError:
            # The guard is ending already.
            self._kill()

    def _kill(self) -> None:
        """Has the guard kill all; if that was done before, ends the guard itself."""
        if self._orders < 0:
            self._process.kill()
            self._deadline = None
            return
        self._close()
        self._deadline = time.monotonic() + guard.PATIENCE + GRACE

    def _close(self) -> None:
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1


@contextmanager
def _awaiting_signals() -> Iterator[None]:
    """Lets signals wait to be taken one by one, each with its sender."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
