"""Stand-ins for dispatcher and worker, which start at once, and what tests of processes need."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

DISPATCHER = """
import os, signal, sys
from gt_protocol.lifeline import watch_lifeline
watch_lifeline()
mood = os.environ["MOOD"]
settings = [os.environ.get(name) for name in ("GT_WORKERS", "GT_CLUSTER_SHARDING", "GT_ADDRESS")]
print("dispatcher with", *settings, file=sys.stderr, flush=True)
if "TOLD" in os.environ:
    with open(os.environ["TOLD"], "w") as told:
        told.write(str(os.getpid()))
if mood == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mood not in {"never ready", "crash"}:
    os.write(int(os.environ["GT_READY_FD"]), b"ready\\n")
signal.pause()
"""

WORKER = """
import os, signal, sys
from gt_protocol.lifeline import watch_lifeline
watch_lifeline()
index, mood = int(os.environ["GT_WORKER_INDEX"]), os.environ["MOOD"]
print("worker", index, os.environ["GT_DEVICE"], file=sys.stderr, flush=True)
if mood == "crash" and index == 1:
    raise SystemExit("\\x1b[31mno such device\\x1b[0m")
signal.pause()
"""


def stand_in_environment(folder: Path, mood: str = "good") -> dict[str, str]:
    """Writes the stand-ins, and returns the variables that make a fleet start them.

    Args:
        folder: Where to write them.
        mood: How they behave: `good`, `crash`, `never ready` or `stubborn`.
    """
    (folder / "gt_dispatcher.py").write_text(DISPATCHER)
    (folder / "gt_worker.py").write_text(WORKER)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "MOOD": mood}


def ended(pid: int, seconds: float = 10) -> bool:
    """Waits until a process that need not be a child has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)
