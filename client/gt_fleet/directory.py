"""Private directories that don't outlive their owners for long, even if those are killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

#: A socket's path has at most 107 bytes on Linux; the rest is for the directory's and the socket's own names.
MAX_BASE: Final = 72
#: A directory without a lock is being made, or its maker was killed in the act; seconds until the latter is certain.
HALF_MADE: Final = 60.0

_PREFIX: Final = "gt-fleet-"
_LOCK: Final = "owner.lock"


class PrivateDirectory:
    """A new directory for this user alone, with a short path.

    Its owner holds a lock on a file in it. The kernel lets go of the lock when the owner ends, however it ends, and
    whoever makes the next directory removes those whose lock is free.

    Attributes:
        path: The directory.
    """

    def __init__(self) -> None:
        base = _base()
        _sweep(base)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
            lock = _try_lock(self.path, create=True)
            if lock is not None:
                break
            # Another process took it for a killed owner's between the two calls, and removes it.
        self._lock = lock
        self._owner = os.getpid()

    def remove(self) -> None:
        """Removes the directory and all in it. A forked child leaves it alone, and a second call does nothing."""
        if self._lock < 0 or os.getpid() != self._owner:
            return
        lock, self._lock = self._lock, -1
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _base() -> Path:
    """Where directories are made: the user's runtime directory, else the one for temporary files."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    # sudo keeps the variable, and another user's directory is no place for ours.
    runtimes = [runtime] if runtime.is_dir() and runtime.stat().st_uid == os.getuid() else []
    for base in (*runtimes, Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - mkdtemp makes a private one in it
        if len(os.fsencode(base.absolute())) <= MAX_BASE and os.access(base, os.W_OK | os.X_OK):
            return base.absolute()
    raise OSError("no directory for temporary files can be written to, or its path is too long: set TMPDIR")


def _try_lock(directory: Path, *, create: bool) -> int | None:
    """Locks a directory.

    Args:
        directory: The directory.
        create: Whether to make the file that is locked.

    Returns:
        The file descriptor that holds the lock, or None if another process holds it or the file isn't there.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(directory / _LOCK, flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sweep(base: Path) -> None:
    """Removes this user's directories whose owners are gone."""
    for directory in base.glob(_PREFIX + "*"):
        # Another process may sweep at the same time: what is gone already needs no removal.
        with contextlib.suppress(FileNotFoundError):
            info = directory.lstat()
            if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
                continue
            if not (directory / _LOCK).exists():
                if _is_half_made(directory, info):
                    directory.rmdir()
                continue
            lock = _try_lock(directory, create=False)
            if lock is not None:
                shutil.rmtree(directory, ignore_errors=True)
                os.close(lock)


def _is_half_made(directory: Path, info: os.stat_result) -> bool:
    return time.time() - info.st_mtime > HALF_MADE and not any(directory.iterdir())
