"""Entry points for kopf: `kopf run -m gt_operator.main --standalone --all-namespaces`.

kopf brings the watches; their events only go into the operator's store and queue. None of kopf's handlers that keep
state on objects is used, so that no object of GT ever carries a finalizer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import kopf

from gt_operator.config import OperatorConfig
from gt_operator.errors import ConfigError
from gt_operator.kube.client import KubeClient, connect
from gt_operator.kube.resources import RESOURCES, Resource
from gt_operator.runtime import Operator
from gt_operator.store import Kind
from gt_protocol.logs import configure_logging
from gt_protocol.resources.constants import CLUSTER_LABEL, GROUP


@dataclass
class _Process:
    """What the handlers of this process share; all of it is there once `start` is through."""

    client: KubeClient | None = None
    operator: Operator | None = None


_process = _Process()


def _operator() -> Operator:
    assert _process.operator is not None
    return _process.operator


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Sets kopf up, and starts the operator."""
    configure_logging("operator")
    # kopf tells of every event that it hands on.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    try:
        config = OperatorConfig.from_env()
        _process.client = client = await connect()
        _configure(settings, config)
        _process.operator = operator = Operator(config, client)
        await operator.start()
    except ConfigError as error:
        raise kopf.PermanentError(str(error)) from error


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    """Stops the operator."""
    if _process.operator is not None:
        await _process.operator.stop()
    if _process.client is not None:
        await _process.client.close()


@kopf.on.login()
async def login(**_: Any) -> kopf.ConnectionInfo:
    """Gives kopf the credentials that the operator itself uses."""
    assert _process.client is not None
    configuration = _process.client.configuration
    header = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    scheme, _space, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def _configure(settings: kopf.OperatorSettings, config: OperatorConfig) -> None:
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.posting.enabled = False
    settings.peering.standalone = True
    # CRDs come and go with the chart, and the operator with them; looking for them would need more rights.
    settings.scanning.disabled = True
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 10.0
    settings.watching.server_timeout = 600
    settings.watching.connect_timeout = 10.0
    settings.process.ultimate_exiting_timeout = 10.0
    for kind in _CHILDREN:
        settings.watching.label_selectors[_selector(RESOURCES[kind])] = CLUSTER_LABEL
    settings.watching.field_selectors[_selector(RESOURCES["Lease"])] = f"metadata.name={config.lease_name}"


def _selector(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


def _observer(kind: Kind) -> Callable[..., Awaitable[None]]:
    # A plain function would run in a thread of its own.
    async def observe(event: kopf.RawEvent, **_: Any) -> None:
        _operator().observe(kind, event["type"], dict(event["object"]))

    return observe


_CHILDREN = [kind for kind in Kind if kind not in (Kind.CLUSTER, Kind.JOB)]

for _kind in Kind:
    kopf.on.event(*_selector(RESOURCES[_kind]), id=f"observe-{_kind.value}")(_observer(_kind))


@kopf.on.event(*_selector(RESOURCES["Lease"]))
async def observe_lease(event: kopf.RawEvent, **_: Any) -> None:
    """Takes note that the watches are alive."""
    _operator().lease_seen(dict(event["object"]))
