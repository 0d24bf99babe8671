"""One process of a fleet."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

#: A log is emptied when it gets larger, in bytes.
MAX_LOG: Final = 8 << 20
#: What an error shows of a log.
SHOWN_LINES: Final = 20
SHOWN_BYTES: Final = 8192

#: Colours of a terminal.
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


class Child:
    """A process that writes its output to a file, and that its owner ends and reaps.

    Args:
        name: What it is called in messages and, with `.log`, its log in the directory.
        module: Module that it runs.
        env: Its environment.
        directory: Where its log goes.
        pass_fds: File descriptors that it inherits.
    """

    def __init__(
        self, name: str, module: str, env: Mapping[str, str], directory: Path, pass_fds: Sequence[int]
    ) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        with self._log.open("ab") as log:
            # -P keeps the current directory off the module path: a file of the user's there must not be taken for ours.
            # A session of its own keeps the terminal's Ctrl-C and Ctrl-Z away.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        self.handle = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def exit_status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs. Reaps it."""
        return self._process.poll()

    def why_it_ended(self) -> str:
        """How it ended, and its last lines."""
        status = self.exit_status()
        if status is not None and status < 0:
            how = f"was ended by {_signal_name(-status)}"
        else:
            how = f"ended with status {status}"
        return f"{self.name} {how}{self.last_lines()}"

    def last_lines(self) -> str:
        """The last lines of its log, each on a line of its own and indented; empty if there are none."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, self._log.stat().st_size - SHOWN_BYTES))
                lines = log.read(SHOWN_BYTES).decode(errors="replace").splitlines()
        except OSError as error:
            return f" (its log can't be read: {error})"
        plain = [_ESCAPES.sub("", line).rstrip() for line in lines[-SHOWN_LINES:]]
        return "".join(f"\n    {line}" for line in plain if line)

    def bound_log(self) -> None:
        """Empties the log if it has grown too large. The process goes on at its new end, since it only appends."""
        if self._log.stat().st_size > MAX_LOG:
            os.truncate(self._log, 0)

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Lets go of it, and reaps it if it has ended."""
        self.exit_status()
        os.close(self.handle)


def wait_readable(descriptors: Iterable[int], seconds: float) -> set[int]:
    """Waits until one can be read, is closed at its other end, or, for a process's handle, the process has ended.

    Args:
        descriptors: File descriptors.
        seconds: How long to wait at most.

    Returns:
        Those of which that holds.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}


def wait_all(children: Iterable[Child], seconds: float) -> list[Child]:
    """Waits until all have ended.

    Args:
        children: The processes.
        seconds: How long to wait at most.

    Returns:
        Those that still run.
    """
    deadline = time.monotonic() + seconds
    running = [child for child in children if child.exit_status() is None]
    while running and (left := deadline - time.monotonic()) > 0:
        wait_readable([child.handle for child in running], left)
        running = [child for child in running if child.exit_status() is None]
    return running


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
