"""What must be on a machine before a cluster can start, and bringing it there."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

from . import base_images, binaries, cgroups, packages
from .layout import CACHE


def obstacle() -> str | None:
    """Return in one line why this machine can't run a cluster whatever is installed, or None if it can."""
    if sys.platform != "linux":
        return "a cluster from source needs Linux"
    if os.geteuid() != 0:
        return "a cluster from source needs root"
    if not cgroups.supported():
        return "a cluster from source needs control groups of version 1"
    if shutil.which("apt-get") is None and packages.missing():
        return f"a cluster from source needs these programs: {', '.join(packages.missing())}"
    return None


def not_set_up() -> str | None:
    """Return in one line what ``ensure`` has still to bring, or None if all is there."""
    lacking = [
        *packages.missing(),
        *(program.name for program in binaries.missing(CACHE / "bin")),
    ]
    if lacking:
        return f"missing: {', '.join(lacking)} (run 'python -m tests.e2e.localkube setup')"
    return None


def ensure() -> None:
    """Install and build what is missing: a quarter of an hour on a bare machine, a second once all is there.

    Raises:
        RuntimeError: This machine can't run a cluster, or has no Go to build one.
        CommandError: An installation or a build failed.
    """
    reason = obstacle()
    if reason is not None:
        raise RuntimeError(reason)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "setup.lock").open("w") as lock:
        # A second run waits here for the first one's work instead of doing it twice.
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages.install_missing()
        if binaries.missing(CACHE / "bin") and not _has_go():
            raise RuntimeError("building the cluster's programs needs Go >= 1.24 on PATH or in /usr/local/go")
        binaries.build_missing(CACHE)
        base_images.pause_archive()
        base_images.ensure_base_image()
        base_images.release_store()


def _has_go() -> bool:
    return shutil.which("go") is not None or Path("/usr/local/go/bin/go").exists()
