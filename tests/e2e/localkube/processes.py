"""Starting a cluster's programs in a node's network namespace, and ending all that runs there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .shell import run
from .waiting import wait_until

NAMESPACES = Path("/run/netns")


class Processes:
    """Starts programs and keeps their logs; whoever holds this object reaps them."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, namespace: str, *command: str | Path) -> None:
        """Start a program in a network namespace; its output goes to ``logs/name.log``.

        ``nsenter`` and not ``ip netns exec``: the latter remounts /sys, where a kubelet then finds no cgroups.
        """
        with (self.logs / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                ["nsenter", f"--net={NAMESPACES / namespace}", *map(str, command)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def check_alive(self, name: str) -> None:
        """Raise an error with the end of a program's log if it has ended.

        Raises:
            RuntimeError: The program has ended.
        """
        status = self._started[name].poll()
        if status is not None:
            log = (self.logs / f"{name}.log").read_text(errors="replace")
            raise RuntimeError(f"{name} ended with status {status}:\n{log[-3000:]}")

    def stop(self, name: str) -> None:
        """Kill one program at once and reap it, as a crash of it would look to the others."""
        self._started[name].kill()
        self._started[name].wait(timeout=10)

    def reap(self) -> None:
        """Collect the exit status of the programs that have ended."""
        for process in self._started.values():
            process.poll()


def end_all(namespaces: Iterable[str], cgroups: Iterable[Path], timeout: float = 20.0) -> None:
    """Kill every process in these network namespaces and cgroups, whoever started it.

    A cluster is found by where its processes run and not by recorded process ids, so that one left by a killed run is
    ended completely and a recycled id is never hit.

    Raises:
        DeadlineError: Some process did not end in time.
    """
    where = list(namespaces), list(cgroups)

    def none_left() -> bool:
        processes = _processes(*where)
        for process in processes:
            _kill(process)
        return not processes

    wait_until(none_left, f"all processes in {', '.join(where[0])} end", timeout)


def _processes(namespaces: list[str], cgroups: list[Path]) -> set[int]:
    found: set[int] = set()
    for namespace in namespaces:
        found.update(map(int, run("ip", "netns", "pids", namespace, check=False).split()))
    for cgroup in cgroups:
        for listing in cgroup.rglob("cgroup.procs"):
            found.update(map(int, listing.read_text().split()))
    return {process for process in found if not _is_zombie(process)}


def _is_zombie(process: int) -> bool:
    """Say whether a process has ended already and only waits for its parent to notice."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in {"Z", "X"}


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
