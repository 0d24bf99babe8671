"""Health and metrics over HTTP.

Alive means that the watches are alive. An idle cluster has no events, so the operator makes one itself: the leader
renews the Lease every two seconds, and all replicas watch it. Who reads by a direct call that the Lease changed, and
doesn't get to see it through the watch, has lost its watches. An API server that can't be reached stops both, and
restarts nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

WATCH_LAG = 60.0
"""Seconds that a watch may stay behind direct calls."""
ELECTION_SILENCE = 60.0
"""Seconds without an attempt to read the Lease after which the election counts as dead."""


class Pulse:
    """When the Lease was last seen, in seconds of the monotonic clock; 0 for never."""

    def __init__(self, started: float) -> None:
        self._started = started
        self.through_watch = 0.0
        self.by_call = 0.0
        self.tried = started

    def problem(self, now: float) -> str | None:
        """Returns why the process should be restarted, or None."""
        if now - self.tried > ELECTION_SILENCE:
            return f"no attempt to read the Lease for {now - self.tried:.0f} s"
        lag = self.by_call - max(self.through_watch, self._started)
        if lag > WATCH_LAG:
            return f"watches are {lag:.0f} s behind"
        return None

    @property
    def ready(self) -> bool:
        """Whether watches have delivered anything yet."""
        return self.through_watch > 0


class HealthServer:
    """Serves /healthz, /readyz and /metrics."""

    def __init__(self, port: int, pulse: Callable[[], Pulse]) -> None:
        self._port = port
        self._pulse = pulse
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Starts to listen.

        Raises:
            OSError: The port is taken.
        """
        app = web.Application()
        app.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "0.0.0.0", self._port).start()  # noqa: S104 - probes come from the node

    async def stop(self) -> None:
        """Stops listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        problem = self._pulse().problem(time.monotonic())
        return web.Response(status=200 if problem is None else 503, text=f"{problem or 'ok'}\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        ready = self._pulse().ready
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "watches have not started yet\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
