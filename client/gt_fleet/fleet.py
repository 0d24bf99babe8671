"""Starts and ends a local fleet."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gt_fleet.child import Child, wait_all, wait_readable
from gt_fleet.devices import choose_devices
from gt_fleet.directory import PrivateDirectory
from gt_fleet.errors import FleetError
from gt_protocol import settings

#: Seconds that processes get to end by themselves, and then to die.
GRACE: Final = 3.0
DEATH: Final = 5.0
#: Seconds between looks at the size of the logs.
UPKEEP: Final = 10.0

_READY: Final = b"ready\n"
#: Settings that parts of a fleet take from the user's environment; all others of ours are set here.
_KEPT: Final = (settings.HEARTBEAT, settings.LOG_FORMAT, settings.LOG_LEVEL, settings.SILENCE)


class LocalFleet:
    """One dispatcher and its workers, as processes of this machine.

    They end when `stop` is called or when this process ends, however it ends. Made by `start`; also a context manager.

    Attributes:
        address: Address of the dispatcher for clients.
        cluster_uid: Identity of the fleet.
        devices: Device of each worker, by PyTorch's name.
        directory: Holds sockets and logs; only this user can enter it.
    """

    def __init__(self, devices: list[str]) -> None:
        self.devices = devices
        self.cluster_uid = str(uuid.uuid4())
        try:
            self._private = PrivateDirectory()
        except OSError as error:
            raise FleetError(f"no directory for a local fleet: {error}") from None
        self.directory: Path = self._private.path
        self.address = f"ipc://{self.directory}/clients"
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._children: list[Child] = []
        self._dispatcher: Child | None = None
        lifeline, self._lifeline = os.pipe()
        self._lifeline_end = lifeline
        _fleets.add(self)

    @classmethod
    def start(
        cls, workers: int, *, device: str | None = None, sharding: str | None = None, ready_timeout: float = 120.0
    ) -> LocalFleet:
        """Starts a fleet, and waits until the dispatcher has accepted every worker.

        Args:
            workers: Number of workers.
            device: `cpu`, `cuda`, or None for GPUs where there is one for each worker, and the CPU elsewhere.
            sharding: Path of the fleet's sharding file, or None.
            ready_timeout: Seconds to wait at most.

        Raises:
            FleetError: A part ended or was not ready in time; the message holds its last lines.
        """
        if not 1 <= workers <= settings.MAX_WORKERS:
            raise FleetError(f"a fleet has 1 to {settings.MAX_WORKERS} workers, not {workers}")
        fleet = cls(choose_devices(workers, device))
        try:
            fleet._launch(sharding, time.monotonic() + ready_timeout)
        except BaseException:
            fleet.stop()
            raise
        return fleet

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each part, by its name: `dispatcher`, `worker-0`, `worker-1`, ..."""
        return {child.name: child.pid for child in self._children}

    def ended(self) -> str | None:
        """Tells why the fleet is of no more use, or None while it serves.

        A worker that has ended doesn't count: the dispatcher tells the sessions that it matters to.
        """
        if self._stopped.is_set():
            return "it was stopped"
        if self._dispatcher is None or self._dispatcher.exit_status() is None:
            return None
        return self._dispatcher.why_it_ended()

    def stop(self) -> None:
        """Ends all processes, reaps them, and removes the directory; within 10 seconds, usually at once.

        A forked child leaves the fleet alone, and a second call does nothing.
        """
        if os.getpid() != self._owner:
            return
        with self._lock:
            if self._stopped.is_set():
                return
            self._stopped.set()
            for child in self._children:
                child.send(signal.SIGTERM)
            running = wait_all(self._children, GRACE)
            self.let_go()
            for child in running:
                child.send(signal.SIGKILL)
            wait_all(running, DEATH)
            for child in self._children:
                child.close()
            self._private.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, sharding: str | None, deadline: float) -> None:
        ready, ready_end = os.pipe()
        try:
            try:
                self._spawn(sharding, ready_end)
            finally:
                os.close(ready_end)
                os.close(self._lifeline_end)
            self._wait_until_ready(ready, deadline)
        finally:
            os.close(ready)
        # The owner may wait for signals; a thread that takes them would swallow them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        threading.Thread(target=self._upkeep, name="gt-fleet", daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _spawn(self, sharding: str | None, ready_end: int) -> None:
        env = base_environment(os.environ, len(self.devices))
        env[settings.LIFELINE_FD] = str(self._lifeline_end)
        env[settings.CLUSTER_UID] = self.cluster_uid
        workers = f"ipc://{self.directory}/workers"
        dispatcher = {
            settings.CLIENT_ENDPOINT: self.address,
            settings.WORKER_ENDPOINT: workers,
            settings.WORKERS: str(len(self.devices)),
            settings.READY_FD: str(ready_end),
        }
        if sharding is not None:
            dispatcher[settings.CLUSTER_SHARDING] = str(Path(sharding).absolute())
        self._dispatcher = self._child("dispatcher", "gt_dispatcher", env | dispatcher, [self._lifeline_end, ready_end])
        for index, device in enumerate(self.devices):
            worker = {
                settings.DISPATCHER: workers,
                settings.WORKER_INDEX: str(index),
                settings.DEVICE: device,
                settings.HOST: "127.0.0.1",
            }
            self._child(f"worker-{index}", "gt_worker", env | worker, [self._lifeline_end])

    def _child(self, name: str, module: str, env: Mapping[str, str], pass_fds: list[int]) -> Child:
        try:
            child = Child(name, module, env, self.directory, pass_fds)
        except OSError as error:
            raise FleetError(f"the local fleet can't start: {name}: {error}") from None
        self._children.append(child)
        return child

    def _wait_until_ready(self, ready: int, deadline: float) -> None:
        heard = b""
        watched = [ready, *(child.handle for child in self._children)]
        while heard != _READY:
            left = deadline - time.monotonic()
            readable = wait_readable(watched, left)
            if ready in readable:
                more = os.read(ready, len(_READY))
                heard += more
                if not more:
                    # The dispatcher's end is closed: it has ended, or soon will.
                    watched.remove(ready)
            for child in self._children:
                if child.handle in readable and child.exit_status() is not None:
                    raise FleetError(f"the local fleet can't start: {child.why_it_ended()}")
            if left <= 0 and heard != _READY:
                raise FleetError(f"the local fleet wasn't ready in time{self._logs()}")

    def _logs(self) -> str:
        return "".join(f"\n  {child.name}:{child.last_lines()}" for child in self._children if child.last_lines())

    def _upkeep(self) -> None:
        """Bounds the logs, and reaps workers that have ended."""
        while not self._stopped.wait(UPKEEP):
            for child in self._children:
                child.exit_status()
                # The directory may go while this runs.
                with contextlib.suppress(FileNotFoundError):
                    child.bound_log()

    def let_go(self) -> None:
        """Closes this process's end of the lifeline."""
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def base_environment(env: Mapping[str, str], workers: int) -> dict[str, str]:
    """What all parts of a fleet find in their environment.

    Args:
        env: The user's environment.
        workers: Number of workers, which share the machine's cores.
    """
    base = {name: value for name, value in env.items() if not name.startswith("GT_") or name in _KEPT}
    base.setdefault(settings.LOG_FORMAT, "console")
    base.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // workers)))
    return base


_fleets: weakref.WeakSet[LocalFleet] = weakref.WeakSet()


def _let_go_of_all() -> None:
    # A forked child that kept the lifeline's end would keep the fleet alive after its owner.
    for fleet in list(_fleets):
        fleet.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)
