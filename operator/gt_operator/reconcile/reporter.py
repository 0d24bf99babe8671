"""Writing what the operator saw: the status, and an event for each change of its reason."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

import structlog

from gt_operator.errors import ApiRefused
from gt_operator.kube.client import KubeClient
from gt_operator.objects import FIELD_MANAGER, Object, condition_of, name_of, namespace_of, uid_of
from gt_operator.observe.pods import format_time
from gt_operator.store import Kind, Store
from gt_protocol.resources import API_VERSION

log: structlog.stdlib.BoundLogger = structlog.get_logger(component="operator")

_NORMAL = frozenset(
    {"AllWorkersReady", "Starting", "Suspended", "Running", "Completed", "WaitingForCluster", "PullingImage"}
)


class Reporter:
    """Writes status and events, and only what is new."""

    def __init__(self, client: KubeClient, store: Store) -> None:
        self._client = client
        self._store = store

    async def report(self, kind: Kind, obj: Object, status: dict[str, Any], told_by: str) -> None:
        """Writes a status if it differs from the one that is there.

        Args:
            kind: Kind of the object.
            obj: The object.
            status: Its status.
            told_by: The condition whose reason is worth an event.

        Raises:
            KubeError: The call failed.
        """
        old = obj.get("status") or {}
        if status == old:
            return
        head = {"name": name_of(obj), "namespace": namespace_of(obj)}
        body = {"apiVersion": API_VERSION, "kind": kind.value, "metadata": head, "status": status}
        try:
            written = await self._client.apply(body, status=True)
        except ApiRefused as error:
            if error.status == 404:
                return  # It was deleted in the meantime.
            raise
        self._store.put(kind, written)
        if status["reason"] != old.get("reason"):
            log.info("reason changed", object=f"{kind} {head['namespace']}/{head['name']}", reason=status["reason"])
            await self._tell(kind, obj, status["reason"], condition_of({"status": status}, told_by).get("message", ""))

    async def _tell(self, kind: Kind, obj: Object, reason: str, message: str) -> None:
        now = format_time(datetime.now(UTC))
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name_of(obj)}.{secrets.token_hex(8)}", "namespace": namespace_of(obj)},
            "type": "Normal" if reason in _NORMAL else "Warning",
            "reason": reason,
            "message": message,
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": kind.value,
                "name": name_of(obj),
                "namespace": namespace_of(obj),
                "uid": uid_of(obj),
            },
            "source": {"component": FIELD_MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(event)
        except ApiRefused as error:
            # The condition says the same; an event is only a courtesy.
            log.info("an event was refused", reason=str(error))
