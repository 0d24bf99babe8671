"""Runs the core: sockets, time, health and the log."""

from __future__ import annotations

import os
import time

import structlog

from gt_dispatcher.core import Core
from gt_dispatcher.events import (
    AllWorkersHere,
    Effect,
    Event,
    Note,
    PeerExited,
    Received,
    Role,
    Send,
    Tick,
    Unwatch,
    Watch,
)
from gt_dispatcher.metrics import registry
from gt_dispatcher.state import CoreSettings
from gt_dispatcher.transport import Transport
from gt_protocol.endpoint import HealthEndpoint
from gt_protocol.errors import SettingsError
from gt_protocol.keys import read_dispatcher_keys
from gt_protocol.operators import operator_table
from gt_protocol.settings import DispatcherSettings
from gt_protocol.sharding import ShardingConfig, parse_sharding

#: Seconds between ticks; also how soon a stop is noticed.
TICK = 0.1
#: The loop counts as stuck after so many seconds without a turn. A first plan of a large program may take long.
STUCK = 120.0


class Server:
    """One dispatcher.

    Args:
        settings: Its settings.
        log: Where to write what happens.

    Raises:
        SettingsError: Keys or the sharding file can't be read.
        ShardingError: The sharding file is wrong.
    """

    def __init__(self, settings: DispatcherSettings, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._settings = settings
        self._core = Core(
            CoreSettings(
                workers=settings.workers,
                cluster_uid=settings.cluster_uid,
                sharding=_cluster_sharding(settings),
                heartbeat=settings.heartbeat,
                silence=settings.silence,
            ),
            operator_table(),
        )
        keys = read_dispatcher_keys(settings.keys) if settings.keys is not None else None
        self._transport = Transport(settings.client_endpoint, settings.worker_endpoint, keys)
        self._turned = time.monotonic()
        self._stopping = False
        self._health: HealthEndpoint | None = None
        if settings.http_port is not None:
            self._health = HealthEndpoint(
                settings.http_port, healthy=self._stuck, ready=self._unready, registry=registry(self._core)
            )
        encrypted = keys is not None and settings.client_endpoint.startswith("tcp://")
        log.info(
            "listening",
            clients=self._transport.endpoint(Role.CLIENT),
            workers=self._transport.endpoint(Role.WORKER),
            encrypted=encrypted,
            epoch=self._core.state.settings.epoch,
        )
        if not encrypted and settings.client_endpoint.startswith("tcp://"):
            log.warning("anybody who reaches the port can use this cluster: set GT_KEYS to encrypt and authenticate")

    def stop(self) -> None:
        """Ends `run` soon; may be called from a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Serves until `stop` is called."""
        next_tick = time.monotonic()
        try:
            while not self._stopping:
                now = self._turned = time.monotonic()
                if now >= next_tick:
                    next_tick = now + TICK
                    self._handle(Tick(now))
                for sender, frames in self._transport.poll(max(0.0, next_tick - now)):
                    moment = time.monotonic()
                    self._handle(Received(sender, frames, moment) if frames is not None else PeerExited(sender, moment))
        finally:
            if self._health is not None:
                self._health.close()
            self._transport.close()

    def _handle(self, event: Event) -> None:
        for effect in self._core.handle(event):
            self._apply(effect)

    def _apply(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._transport.send(effect.to, effect.frames)
        elif isinstance(effect, Note):
            (self._log.warning if effect.warning else self._log.info)(effect.event, **effect.fields)
        elif isinstance(effect, Watch):
            if not self._transport.watch(effect.peer, effect.pid):
                self._handle(PeerExited(effect.peer, time.monotonic()))
        elif isinstance(effect, Unwatch):
            self._transport.unwatch(effect.peer)
        elif isinstance(effect, AllWorkersHere):
            self._log.info("all workers are here", workers=self._settings.workers)
            if self._settings.ready_fd is not None:
                os.write(self._settings.ready_fd, b"ready\n")
                os.close(self._settings.ready_fd)

    def _stuck(self) -> str | None:
        age = time.monotonic() - self._turned
        return f"the loop has not turned for {age:.0f} s" if age > STUCK else None

    def _unready(self) -> str | None:
        return self._stuck()


def _cluster_sharding(settings: DispatcherSettings) -> ShardingConfig | None:
    if settings.sharding is None:
        return None
    try:
        text = settings.sharding.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"GT_CLUSTER_SHARDING: {settings.sharding} can't be read: {error}") from None
    return parse_sharding(text, source=str(settings.sharding), workers=settings.workers)
