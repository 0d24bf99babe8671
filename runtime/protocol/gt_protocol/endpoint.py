"""Health and metrics of a process over HTTP: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

#: Answers a probe: None is well, a text says what is wrong.
Probe = Callable[[], str | None]


class HealthEndpoint:
    """Serves probes and metrics from a thread of its own.

    Args:
        port: TCP port; 0 takes a free one.
        healthy: Liveness: the process works.
        ready: Readiness: it has what it needs.
        registry: Metrics to serve.
    """

    def __init__(self, port: int, *, healthy: Probe, ready: Probe, registry: CollectorRegistry) -> None:
        handler = _handler({"/healthz": healthy, "/readyz": ready}, registry)
        self._server = ThreadingHTTPServer(("", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="gt-http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _handler(probes: dict[str, Probe], registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                return
            probe = probes.get(self.path)
            if probe is None:
                self._answer(404, "text/plain", b"known paths: /healthz /readyz /metrics\n")
                return
            problem = probe()
            self._answer(503 if problem else 200, "text/plain", f"{problem or 'ok'}\n".encode())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds; they are not worth a line each."""

    return Handler
