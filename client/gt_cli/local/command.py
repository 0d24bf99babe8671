"""Turns a container's command into one for this machine."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gt_cli.errors import CommandError
from gt_protocol import settings

_PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")

#: Settings of this process that are no business of the job: they name another cluster, or are a part's own.
_NOT_INHERITED: Final = frozenset(
    {
        settings.ADDRESS,
        settings.CLUSTER_UID,
        settings.JOB_SHARDING,
        settings.KEYS,
        settings.LIFELINE_FD,
        settings.READY_FD,
    }
)


def job_environment(env: Mapping[str, str], inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a job's process.

    Args:
        env: The container's variables and GT's settings for the job; they win.
        inherited: Environment of this process.
    """
    base = {name: value for name, value in inherited.items() if name not in _NOT_INHERITED}
    # Output is followed as it comes, also through a pipe.
    base.setdefault("PYTHONUNBUFFERED", "1")
    merged = {**base, **env}
    # So that scripts find the interpreter and the tools that this program was installed with.
    merged["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), merged.get("PATH") or os.defpath])
    return merged


def local_command(words: Sequence[str], env: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """The command as this machine runs it: `python` is the interpreter of this program.

    Args:
        words: Command and arguments.
        env: Environment of the job.
        folder: Its working directory.

    Raises:
        CommandError: There is no such program here.
    """
    program = words[0]
    if _PYTHON.fullmatch(program):
        return (sys.executable, *words[1:])
    if "/" in program:
        path = folder / program
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise CommandError(f"{program} is no program on this machine (an image may have it)")
        return (str(path), *words[1:])
    found = shutil.which(program, path=env["PATH"])
    if found is None:
        raise CommandError(f"there is no program {program!r} on this machine's PATH (an image may have it)")
    return (found, *words[1:])
