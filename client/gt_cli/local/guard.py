"""Runs a job's command for `gt run`, and leaves nothing of it behind.

    guard.py ORDERS COMMAND...

It stands between `gt run` and the command, in the same process group and on the same terminal, and gets orders through
a pipe: each byte is the number of a signal for the command. When the pipe ends, because `gt run` says so or is gone, or
when the command ends, it kills whatever the command has started and ends with the command's exit status, 128 + number
for a signal.

It runs as a script of its own with nothing but the standard library, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

#: Seconds until what does not die is left to the system.
PATIENCE = 5.0
CANT_START = 127


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit status."""
    orders, command = int(arguments[0]), arguments[1:]
    os.set_inheritable(orders, False)
    libc = ctypes.CDLL(None, use_errno=True)
    # Orphans of the command come to this process instead of init, so that they are found.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake = _prepare_signals()
    job = _start(command, libc)
    status = _serve(job, orders, wake)
    _kill_descendants(wake)
    code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _prepare_signals() -> int:
    """Makes signals wake the loop; returns the file descriptor that says so."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _note)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        # The terminal sends these to the command as well. A handler, unlike "ignore", isn't inherited by it;
        # what this process was told to ignore, as by nohup, stays ignored for both.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    # `gt run` blocks signals to wait for them; the command must not inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reading


def _note(number: int, frame: object) -> None:
    """Does nothing: the wake-up is what counts."""


def _start(command: list[str], libc: ctypes.CDLL) -> int:
    guard = os.getpid()
    job = os.fork()
    if job:
        return job
    try:
        # If even this process is killed, the command goes with it.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == guard:
            os.execv(command[0], command)  # noqa: S606 - the program that the user wants to run
    except OSError as error:
        os.write(2, f"gt run: {command[0]} can't be started: {error.strerror}\n".encode())
    finally:
        os._exit(CANT_START)


def _serve(job: int, orders: int, wake: int) -> int | None:
    """Carries out orders until the command has ended; returns its wait status, or None if the orders end first."""
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if wake in ready:
            os.read(wake, 4096)
            status = _reap(job)
            if status is not None:
                return status
        if orders in ready:
            numbers = os.read(orders, 64)
            if not numbers:
                return None
            for number in numbers:
                os.kill(job, number)


def _reap(job: int) -> int | None:
    """Reaps all children that have ended; returns the command's wait status if it is one of them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == job:
                found = status
    return found


def _kill_descendants(wake: int) -> None:
    deadline = time.monotonic() + PATIENCE
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    while (pids := _descendants()) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # Each death wakes this; the limit is for processes that are no children yet.
        if poll.poll(100):
            os.read(wake, 4096)
        _reap(0)


def _descendants() -> list[int]:
    """All processes below this one that have not been reaped."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            # It may end while it is looked at.
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    grown = True
    while grown:
        below = {pid for pid, parent in parents.items() if parent in found}
        grown = not below <= found
        found |= below
    return sorted(found - {os.getpid()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
