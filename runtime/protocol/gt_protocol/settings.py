"""Settings of each process, read once from the environment. This module alone names the `GT_*` variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from gt_protocol.errors import SettingsError

T = TypeVar("T")

ADDRESS: Final = "GT_ADDRESS"
CLIENT_ENDPOINT: Final = "GT_CLIENT_ENDPOINT"
CLUSTER_SHARDING: Final = "GT_CLUSTER_SHARDING"
CLUSTER_UID: Final = "GT_CLUSTER_UID"
COLLECTIVE_TIMEOUT: Final = "GT_COLLECTIVE_TIMEOUT"
CONFIG: Final = "GT_CONFIG"
DEVICE: Final = "GT_DEVICE"
DISPATCHER: Final = "GT_DISPATCHER"
HEARTBEAT: Final = "GT_HEARTBEAT"
HOST: Final = "GT_HOST"
HTTP_PORT: Final = "GT_HTTP_PORT"
JOB_SHARDING: Final = "GT_JOB_SHARDING"
KEYS: Final = "GT_KEYS"
LIFELINE_FD: Final = "GT_LIFELINE_FD"
LOG_FORMAT: Final = "GT_LOG_FORMAT"
LOG_LEVEL: Final = "GT_LOG_LEVEL"
READY_FD: Final = "GT_READY_FD"
SILENCE: Final = "GT_SILENCE"
TIMEOUT: Final = "GT_TIMEOUT"
WORKER_ENDPOINT: Final = "GT_WORKER_ENDPOINT"
WORKER_INDEX: Final = "GT_WORKER_INDEX"
WORKERS: Final = "GT_WORKERS"

DEFAULT_COLLECTIVE_TIMEOUT: Final = 60.0
DEFAULT_HEARTBEAT: Final = 1.0
DEFAULT_SILENCE: Final = 10.0
DEFAULT_TIMEOUT: Final = 300.0
MAX_WORKERS: Final = 4096


@dataclass(frozen=True)
class DispatcherSettings:
    """Settings of a dispatcher.

    Attributes:
        client_endpoint: ZeroMQ endpoint that clients connect to.
        worker_endpoint: ZeroMQ endpoint that workers connect to.
        workers: Number of workers that make the cluster ready.
        cluster_uid: Identity of the cluster, or empty.
        sharding: The cluster's sharding file, or None.
        keys: Folder of CURVE keys, or None to speak without encryption.
        http_port: Port of health and metrics; None serves none.
        ready_fd: File descriptor that gets a line once all workers are there, or None.
        heartbeat: Interval of heartbeats, in seconds.
        silence: Seconds of silence after which a peer counts as dead.
    """

    client_endpoint: str
    worker_endpoint: str
    workers: int
    cluster_uid: str
    sharding: Path | None
    keys: Path | None
    http_port: int | None
    ready_fd: int | None
    heartbeat: float
    silence: float

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> DispatcherSettings:
        """Reads the settings.

        Raises:
            SettingsError: One is missing or can't be used.
        """
        read = _Reader(env)
        return cls(
            client_endpoint=read.endpoint(CLIENT_ENDPOINT),
            worker_endpoint=read.endpoint(WORKER_ENDPOINT),
            workers=read.number(WORKERS, int, default=1, low=0, high=MAX_WORKERS),
            cluster_uid=env.get(CLUSTER_UID, ""),
            sharding=read.path(CLUSTER_SHARDING),
            keys=read.path(KEYS),
            http_port=read.optional(HTTP_PORT, int, low=0, high=65535),
            ready_fd=read.optional(READY_FD, int, low=0, high=1 << 20),
            heartbeat=read.number(HEARTBEAT, float, default=DEFAULT_HEARTBEAT, low=0.01, high=3600),
            silence=read.number(SILENCE, float, default=DEFAULT_SILENCE, low=0.05, high=36000),
        )


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker.

    Attributes:
        dispatcher: ZeroMQ endpoint of the dispatcher for workers.
        index: The worker's place among the cluster's workers, from 0.
        device: Device by PyTorch's name, such as `cpu`, `cuda` or `cuda:1`.
        host: Address at which other workers reach this one.
        cluster_uid: Identity of the cluster, or empty.
        keys: Folder of CURVE keys, or None to speak without encryption.
        http_port: Port of health and metrics; None serves none.
        collective_timeout: Seconds that a worker waits for the others in a collective.
    """

    dispatcher: str
    index: int
    device: str
    host: str
    cluster_uid: str
    keys: Path | None
    http_port: int | None
    collective_timeout: float = DEFAULT_COLLECTIVE_TIMEOUT

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> WorkerSettings:
        """Reads the settings.

        Raises:
            SettingsError: One is missing or can't be used.
        """
        read = _Reader(env)
        return cls(
            dispatcher=read.endpoint(DISPATCHER),
            index=read.number(WORKER_INDEX, int, default=0, low=0, high=MAX_WORKERS - 1),
            device=env.get(DEVICE, "cpu"),
            host=env.get(HOST, "127.0.0.1"),
            cluster_uid=env.get(CLUSTER_UID, ""),
            keys=read.path(KEYS),
            http_port=read.optional(HTTP_PORT, int, low=0, high=65535),
            collective_timeout=read.number(
                COLLECTIVE_TIMEOUT, float, default=DEFAULT_COLLECTIVE_TIMEOUT, low=0.1, high=1e6
            ),
        )


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a client.

    Attributes:
        address: Dispatcher to connect to, or None to start a local fleet.
        workers: Size of that local fleet, or None for its default.
        cluster_uid: The cluster that is meant, or empty for any.
        config: The user's sharding file, or None.
        job_sharding: The job's sharding file, or None; `config` wins over it.
        keys: Folder of CURVE keys, or None to speak without encryption.
        timeout: Seconds that a read waits for its value.
    """

    address: str | None
    workers: int | None
    cluster_uid: str
    config: Path | None
    job_sharding: Path | None
    keys: Path | None
    timeout: float

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> ClientSettings:
        """Reads the settings.

        Raises:
            SettingsError: One is missing or can't be used.
        """
        read = _Reader(env)
        return cls(
            address=read.endpoint(ADDRESS) if env.get(ADDRESS) else None,
            workers=read.optional(WORKERS, int, low=1, high=MAX_WORKERS),
            cluster_uid=env.get(CLUSTER_UID, ""),
            config=read.path(CONFIG),
            job_sharding=read.path(JOB_SHARDING),
            keys=read.path(KEYS),
            timeout=read.number(TIMEOUT, float, default=DEFAULT_TIMEOUT, low=0.001, high=1e9),
        )


class _Reader:
    """Reads single variables, with errors that name them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def endpoint(self, name: str) -> str:
        value = self._env.get(name, "")
        if not value.startswith(("tcp://", "ipc://")):
            raise SettingsError(f"{name} must be an address such as tcp://host:7070, not {value!r}")
        return value

    def path(self, name: str) -> Path | None:
        value = self._env.get(name)
        return Path(value) if value else None

    def optional(self, name: str, kind: Callable[[str], T], *, low: float, high: float) -> T | None:
        text = self._env.get(name)
        return None if not text else self._parse(name, text, kind, low, high)

    def number(self, name: str, kind: Callable[[str], T], *, default: T, low: float, high: float) -> T:
        value = self.optional(name, kind, low=low, high=high)
        return default if value is None else value

    @staticmethod
    def _parse(name: str, text: str, kind: Callable[[str], T], low: float, high: float) -> T:
        try:
            value = kind(text)
            inside = low <= float(text) <= high
        except ValueError:
            raise SettingsError(f"{name} must be a number, not {text!r}") from None
        if not inside:
            raise SettingsError(f"{name} must be between {low:g} and {high:g}, not {text}")
        return value
