"""Checks documents as the API server would, and finds objects by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from gt_cli.local.documents import Document, read_documents
from gt_protocol.errors import ManifestError
from gt_protocol.resources import CLUSTER_KIND, GROUP, JOB_KIND, GTCluster, GTJob, load_resource

T = TypeVar("T")

CONFIG_MAP_KIND = "ConfigMap"

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, eq=False)
class Found(Generic[T]):
    """An object, and where it stands.

    Attributes:
        kind: Its kind.
        key: Its namespace and name.
        document: Where it stands.
        object: The object.
    """

    kind: str
    key: Key
    document: Document
    object: T

    def __str__(self) -> str:
        return f"{self.kind} {self.key[1]}"


@dataclass
class Manifests:
    """All objects of the files, by kind.

    Attributes:
        config_maps: Data of the ConfigMaps.
        clusters: The GTClusters.
        jobs: The GTJobs, in order of appearance.
        others: Names of objects of other kinds, by kind.
    """

    config_maps: dict[Key, Found[dict[str, str]]] = field(default_factory=dict)
    clusters: dict[Key, Found[GTCluster]] = field(default_factory=dict)
    jobs: dict[Key, Found[GTJob]] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)

    def add(self, document: Document) -> None:
        """Checks a document and adds its object.

        Raises:
            ManifestError: The document is wrong, or the object is there already.
        """
        kind, version = (_text(document, name) for name in ("kind", "apiVersion"))
        if kind == CONFIG_MAP_KIND and version == "v1":
            _add(self.config_maps, Found(kind, _key(document), document, _config_data(document)))
        elif kind in (CLUSTER_KIND, JOB_KIND) or version.split("/")[0] == GROUP:
            resource = _load(document)
            key = resource.metadata.namespace, resource.metadata.name
            if isinstance(resource, GTCluster):
                _add(self.clusters, Found(kind, key, document, resource))
            else:
                _add(self.jobs, Found(kind, key, document, resource))
        else:
            self.others.setdefault(kind, []).append(_key(document)[1])

    def config_data(self, ref: ConfigRef) -> dict[str, str]:
        """The data of the ConfigMap that a reference names; nothing if it is missing and may be.

        Raises:
            ManifestError: It is missing.
        """
        found = self.config_maps.get((ref.namespace, ref.name))
        if found is not None:
            return found.object
        if ref.optional:
            return {}
        raise ref.document.error(_missing(CONFIG_MAP_KIND, ref.namespace, ref.name), f"{ref.field}.name")

    def config_value(self, ref: ConfigRef) -> str | None:
        """The value that a reference names; None if it is missing and may be.

        Raises:
            ManifestError: It is missing.
        """
        data = self.config_data(ref)
        if ref.key not in data and not ref.optional:
            keys = ", ".join(data) or "none"
            raise ref.document.error(
                f"ConfigMap {ref.name} has no key {ref.key!r} (its keys: {keys})", f"{ref.field}.key"
            )
        return data.get(ref.key)

    def cluster(self, job: Found[GTJob], name: str) -> Found[GTCluster]:
        """The cluster that a job refers to.

        Raises:
            ManifestError: It isn't in the files.
        """
        namespace = job.key[0]
        found = self.clusters.get((namespace, name))
        if found is None:
            raise job.document.error(_missing(CLUSTER_KIND, namespace, name), "spec.clusterRef.name")
        return found


@dataclass(frozen=True, eq=False)
class ConfigRef:
    """A reference to a ConfigMap, or to a key of one.

    Attributes:
        document: Where the reference stands.
        field: Path of the field that refers.
        namespace: Namespace of the ConfigMap.
        name: Name of the ConfigMap.
        key: Key in it; empty for all of it.
        optional: Whether it may be missing.
    """

    document: Document
    field: str
    namespace: str
    name: str
    key: str
    optional: bool = False


def read_manifests(paths: Iterable[Path]) -> Manifests:
    """Reads and checks all files.

    Raises:
        ManifestError: Something in them is wrong; the error names file, line and field.
    """
    manifests = Manifests()
    for document in read_documents(paths):
        manifests.add(document)
    return manifests


def _add(objects: dict[Key, Found[T]], found: Found[T]) -> None:
    first = objects.setdefault(found.key, found)
    if first is not found:
        raise found.document.error(f"{found} is here twice; the first is at {first.document.source()}", "metadata.name")


def _load(document: Document) -> GTCluster | GTJob:
    try:
        return load_resource(document.content)
    except ManifestError as error:
        # Only the error knows the field, and only the document knows its line.
        return load_resource(document.content, source=document.source(error.field))


def _text(document: Document, name: str) -> str:
    value = document.content.get(name)
    if not isinstance(value, str) or not value:
        raise document.error("is required", name)
    return value


def _key(document: Document) -> Key:
    metadata: Any = document.content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise document.error("is required", "metadata.name")
    namespace = metadata.get("namespace") or "default"
    if not isinstance(namespace, str):
        raise document.error("must be a string", "metadata.namespace")
    return namespace, name


def _config_data(document: Document) -> dict[str, str]:
    data: Any = document.content.get("data") or {}
    if not isinstance(data, dict):
        raise document.error("must be a mapping", "data")
    for key, value in data.items():
        if not isinstance(value, str):
            raise document.error("must be a string; put it in quotes", f"data.{key}")
    return data


def _missing(kind: str, namespace: str, name: str) -> str:
    where = "" if namespace == "default" else f" in namespace {namespace}"
    return f"there is no {kind} {name!r}{where} in the files; name its file or folder too"
