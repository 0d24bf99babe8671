"""The pod that all components start from, and how users' templates are laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gt_operator.builders.names import KEYS_FOLDER, SHARDING_FOLDER, keys_name, service_account_name
from gt_operator.builders.resources import THREADS, threads, with_defaults
from gt_operator.merge import lay_over
from gt_operator.objects import KEYS_ANNOTATION, Object
from gt_protocol import settings
from gt_protocol.resources.base import ConfigMapKeyRef, PodTemplate, ResourceRequirements
from gt_protocol.resources.constants import CLIENT, DISPATCHER, HTTP_PORT, WORKER

USER = 10001
"""User and group of all processes, as in the image."""

_FILE_MODE = 0o440


@dataclass(frozen=True)
class PodParts:
    """What differs between the pods of components.

    Attributes:
        component: The component, which is also the main container's name.
        cluster: Name of the cluster.
        labels: Labels that others select the pod by; no template can change them.
        fingerprint: Fingerprint of the cluster's keys.
        image: Image of the main container.
        pull_policy: When nodes pull it.
        grace: Seconds between the request to end and the end by force.
        env: Variables of the main container: values, or sources as in `valueFrom`.
        command: Command of the main container; None for the image's own.
        ports: Ports of the main container, by name.
        resources: Compute resources of the main container.
        serves_health: Whether the main container answers probes.
        computes_on_cpu: Whether the main container's device is the CPU.
        sharding: The sharding file to mount, or None.
        sharding_variable: The variable that names it.
    """

    component: str
    cluster: str
    labels: Mapping[str, str]
    fingerprint: str
    image: str
    pull_policy: str
    grace: int
    env: Mapping[str, str | Mapping[str, Any]]
    command: tuple[str, ...] | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    serves_health: bool = True
    computes_on_cpu: bool = False
    sharding: ConfigMapKeyRef | None = None
    sharding_variable: str = ""


def pod_template(parts: PodParts, everywhere: Mapping[str, Any], overlay: Mapping[str, Any]) -> Object:
    """Returns a pod template with other templates laid over it.

    Args:
        parts: What differs between the pods of components.
        everywhere: The template beneath every pod; its containers of other components are left out.
        overlay: The template of the user, on top.

    Raises:
        TemplateError: A template can't be laid over it.
    """
    template: Object = {
        "metadata": {"labels": dict(parts.labels), "annotations": {KEYS_ANNOTATION: parts.fingerprint}},
        "spec": {
            "serviceAccountName": service_account_name(parts.cluster),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": parts.grace,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_main_container(parts)],
            "volumes": _volumes(parts),
        },
    }
    for layer in (_of_component(everywhere, parts.component), overlay):
        template = lay_over(template, layer, parts.component)
    template["metadata"]["labels"].update(parts.labels)
    _complete(template, parts)
    return template


def overlay_of(template: PodTemplate | None) -> dict[str, Any]:
    """Returns a user's template as it was written."""
    return {} if template is None else template.model_dump(by_alias=True, exclude_unset=True)


def resources_of(requirements: ResourceRequirements | None) -> dict[str, Any]:
    """Returns compute resources as they were written."""
    return {} if requirements is None else requirements.model_dump(by_alias=True, exclude_none=True)


def _complete(template: Object, parts: PodParts) -> None:
    """Adds to the main container what depends on what the templates say."""
    main = next(each for each in template["spec"]["containers"] if each["name"] == parts.component)
    main["resources"] = with_defaults(main.get("resources") or {})
    if parts.computes_on_cpu and all(each["name"] != THREADS for each in main.get("env") or ()):
        main["env"] = [*(main.get("env") or ()), _variable(THREADS, str(threads(main["resources"])))]


def _of_component(overlay: Mapping[str, Any], component: str) -> Mapping[str, Any]:
    spec = overlay.get("spec") or {}
    others = {DISPATCHER, WORKER, CLIENT} - {component}
    containers = [each for each in spec.get("containers") or () if each["name"] not in others]
    return {**overlay, "spec": {**spec, "containers": containers}}


def _main_container(parts: PodParts) -> Object:
    env = {**parts.env, settings.KEYS: KEYS_FOLDER, settings.LOG_FORMAT: "json"}
    mounts = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
        {"name": "keys", "mountPath": KEYS_FOLDER, "readOnly": True},
    ]
    if parts.sharding is not None:
        env[parts.sharding_variable] = f"{SHARDING_FOLDER}/{parts.sharding.key}"
        mounts.append({"name": "sharding", "mountPath": SHARDING_FOLDER, "readOnly": True})
    container: Object = {
        "name": parts.component,
        "image": parts.image,
        "imagePullPolicy": parts.pull_policy,
        "env": [_variable(name, value) for name, value in env.items()],
        "resources": dict(parts.resources),
        "volumeMounts": mounts,
        # The end of the log then says why a container failed, in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if parts.command is not None:
        container["command"] = list(parts.command)
    if parts.ports:
        container["ports"] = [{"name": name, "containerPort": port} for name, port in parts.ports.items()]
    return container | (_probes() if parts.serves_health else {})


def _probes() -> Object:
    live, ready = ({"httpGet": {"path": path, "port": HTTP_PORT}} for path in ("/healthz", "/readyz"))
    return {
        # PyTorch may take a minute to load from a slow disk; readiness then needs no delay of its own.
        "startupProbe": {**live, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 180},
        "livenessProbe": {**live, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {**ready, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 2},
    }


def _volumes(parts: PodParts) -> list[Object]:
    secret = {"secretName": keys_name(parts.cluster, parts.component), "defaultMode": _FILE_MODE}
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {}}, {"name": "keys", "secret": secret}]
    if parts.sharding is not None:
        volumes.append({"name": "sharding", "configMap": {"name": parts.sharding.name}})
    return volumes


def _variable(name: str, value: str | Mapping[str, Any]) -> Object:
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": dict(value)}
