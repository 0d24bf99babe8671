"""Ends a process with its owner, whatever ends the owner.

The owner of local processes keeps the write end of a pipe; they inherit the read end. Nothing is ever written: the pipe
ends when the owner does, even by SIGKILL, and that is the signal. (Linux's parent-death signal would not do: it follows
the thread that started the process, not the owner.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from gt_protocol.errors import SettingsError
from gt_protocol.settings import LIFELINE_FD


def watch_lifeline(env: Mapping[str, str] = os.environ, *, status: int = 0) -> threading.Thread | None:
    """Watches the pipe that `GT_LIFELINE_FD` names, and ends this process at once when its other end closes.

    Args:
        env: Where the variable is read from.
        status: Exit status of the process when its owner is gone.

    Returns:
        The thread that watches, or None if there is no lifeline.

    Raises:
        SettingsError: The variable names no open file descriptor.
    """
    text = env.get(LIFELINE_FD)
    if not text:
        return None
    try:
        descriptor = int(text)
        # Children of this process have owners of their own.
        os.set_inheritable(descriptor, False)
    except (ValueError, OverflowError, OSError):
        raise SettingsError(f"{LIFELINE_FD} must be the number of an open file descriptor, not {text!r}") from None
    thread = threading.Thread(target=_wait, args=(descriptor, status), name="gt-lifeline", daemon=True)
    thread.start()
    return thread


def _wait(descriptor: int, status: int) -> None:
    try:
        while os.read(descriptor, 64):
            pass
    finally:
        # No clean-up: whoever this process worked for is gone, and a clean-up could hang.
        os._exit(status)
