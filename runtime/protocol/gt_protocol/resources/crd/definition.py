"""The CustomResourceDefinitions of GTCluster and GTJob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from gt_protocol.resources.base import Model
from gt_protocol.resources.cluster import GTCluster
from gt_protocol.resources.constants import CLUSTER_KIND, CLUSTER_PLURAL, GROUP, JOB_KIND, JOB_PLURAL, VERSION
from gt_protocol.resources.crd.schema import structural_schema
from gt_protocol.resources.job import GTJob

_HEADER = (
    "# Generated from gt_protocol/resources. Do not edit, but run\n"
    "# python -m gt_protocol.resources.crd crds charts/gt/files\n"
)


@dataclass(frozen=True)
class _Column:
    """A column of `kubectl get`; columns of priority 1 show with `-o wide` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0

    def manifest(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.path,
            "description": self.description,
            "priority": self.priority,
        }


_AGE = _Column("Age", ".metadata.creationTimestamp", "Time since it was made.", type="date")
_MESSAGE = "Details of the reason."

_CLUSTER_COLUMNS = (
    _Column("Ready", ".status.ready", "Workers accepted, of workers asked for."),
    _Column("Reason", ".status.reason", "Why it is ready or not."),
    _AGE,
    _Column("Message", '.status.conditions[?(@.type=="Ready")].message', _MESSAGE, priority=1),
)
_JOB_COLUMNS = (
    _Column("State", ".status.state", "Waiting, Running, Suspended, Succeeded or Failed."),
    _Column("Cluster", ".status.cluster", "The GTCluster that it runs on."),
    _Column("Reason", ".status.reason", "Why it is in that state."),
    _AGE,
    _Column("Message", '.status.conditions[?(@.type=="Running")].message', _MESSAGE, priority=1),
)


class _PlainDumper(yaml.SafeDumper):
    """Repeats what occurs twice, for people and tools that don't know aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def definitions() -> dict[str, dict[str, Any]]:
    """Returns all CustomResourceDefinitions by the resource's plural."""
    return {
        CLUSTER_PLURAL: _definition(GTCluster, CLUSTER_KIND, CLUSTER_PLURAL, "gtc", _CLUSTER_COLUMNS),
        JOB_PLURAL: _definition(GTJob, JOB_KIND, JOB_PLURAL, "gtj", _JOB_COLUMNS),
    }


def render(definition: dict[str, Any]) -> str:
    """Returns a CustomResourceDefinition as the text of its file."""
    return _HEADER + yaml.dump(definition, Dumper=_PlainDumper, sort_keys=False, width=120)


def _definition(
    model: type[Model], kind: str, plural: str, short_name: str, columns: tuple[_Column, ...]
) -> dict[str, Any]:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.manifest() for column in columns],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": structural_schema(model)},
    }
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short_name],
        "categories": ["gt"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
