"""Running other programs: one place that turns a failed command into a readable error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandError(RuntimeError):
    """A command ended with a non-zero status or ran past its deadline."""


def run(
    *command: str | Path,
    check: bool = True,
    timeout: float = 120.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command and return what it wrote to standard output.

    Args:
        command: The program and its arguments.
        check: Raise when the status is not zero; otherwise the output is returned whatever the status.
        timeout: Seconds the command may take.
        env: Variables set on top of this process's environment.
        cwd: The working folder.
        stdin: Text given as standard input; without it the standard input is empty.

    Raises:
        CommandError: The command failed (with ``check``) or took longer than ``timeout``.
    """
    # A failing test then shows the line that asked for the command.
    __tracebackhide__ = True
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            text=True,
            capture_output=True,
            timeout=timeout,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            input=stdin if stdin is not None else "",
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise CommandError(f"'{' '.join(words)}' took longer than {timeout:.0f} s") from expired
    if check and done.returncode != 0:
        raise CommandError(_describe(words, done.returncode, done.stdout, done.stderr))
    return done.stdout


def _describe(words: Sequence[str], status: int, stdout: str, stderr: str) -> str:
    said = "\n".join(part.strip()[-4000:] for part in (stdout, stderr) if part.strip())
    return f"'{' '.join(words)}' ended with status {status}:\n{said}"
