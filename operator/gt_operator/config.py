"""Settings of the operator's process, read once from the environment that the chart makes."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gt_operator.errors import ConfigError
from gt_protocol.resources.base import PodTemplate

IMAGE = "GT_OPERATOR_IMAGE"
LEASE_NAME = "GT_OPERATOR_LEASE_NAME"
LEASE_NAMESPACE = "GT_OPERATOR_LEASE_NAMESPACE"
NAMESPACES = "GT_OPERATOR_NAMESPACES"
POD_NAME = "GT_OPERATOR_POD_NAME"
POD_OVERLAY = "GT_OPERATOR_POD_OVERLAY"
PORT = "GT_OPERATOR_PORT"


@dataclass(frozen=True)
class OperatorConfig:
    """Settings of the operator.

    Attributes:
        image: Image of dispatchers, workers and clients that name none.
        lease_name: Name of the Lease that replicas of the operator share.
        lease_namespace: Its namespace.
        namespaces: Namespaces to serve; empty for all.
        identity: What this process calls itself in the Lease; unique among processes.
        port: Port of health and metrics.
        pod_overlay: Pod template beneath every pod that the operator makes.
    """

    image: str
    lease_name: str = "gt-operator"
    lease_namespace: str = "gt-system"
    namespaces: tuple[str, ...] = ()
    identity: str = "gt-operator"
    port: int = 8080
    pod_overlay: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> OperatorConfig:
        """Reads the settings.

        Raises:
            ConfigError: One is missing or can't be used.
        """
        image = env.get(IMAGE, "")
        if not image:
            raise ConfigError(f"{IMAGE} must name the image that dispatchers and workers run")
        overlay = env.get(POD_OVERLAY, "")
        return cls(
            image=image,
            lease_name=env.get(LEASE_NAME, cls.lease_name),
            lease_namespace=env.get(LEASE_NAMESPACE, cls.lease_namespace),
            namespaces=tuple(filter(None, env.get(NAMESPACES, "").split(","))),
            # A restarted container keeps its pod's name, and must not believe that it still leads.
            identity=f"{env.get(POD_NAME) or socket.gethostname()}-{os.urandom(4).hex()}",
            port=_port(env.get(PORT, str(cls.port))),
            pod_overlay=_read_overlay(Path(overlay)) if overlay else {},
        )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ConfigError(f"{PORT} must be a port between 1 and 65535, not {text!r}")
    return int(text)


def _read_overlay(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text("utf-8")) or {}
        PodTemplate.model_validate(document)
    except OSError as error:
        raise ConfigError(f"{POD_OVERLAY}: {path} can't be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{POD_OVERLAY}: {path} is no YAML: {error}") from None
    except ValidationError as error:
        raise ConfigError(f"{POD_OVERLAY}: {path} is no pod template: {error}") from None
    assert isinstance(document, dict)
    return document
