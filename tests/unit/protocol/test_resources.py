"""The models of the custom resources, and the CRDs made from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gt_protocol.errors import ManifestError
from gt_protocol.resources import check_update, load_resource
from gt_protocol.resources.base import Model
from gt_protocol.resources.crd import definitions, render
from gt_protocol.resources.crd.schema import structural_schema
from gt_protocol.resources.job import GTJob
from tests.support.resource_cases import CASES, CHANGES, Case, Change, cluster

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("crds", "charts/gt/files")
LIMIT_OF_KUBECTL_APPLY = 262_144


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_manifest(case: Case) -> None:
    if case.wrong is None:
        load_resource(case.doc)
    else:
        with pytest.raises(ManifestError) as caught:
            load_resource(case.doc)
        assert case.wrong in str(caught.value)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_change(change: Change) -> None:
    old, new = load_resource(change.old), load_resource(change.new)
    if change.wrong is None:
        check_update(old, new)
    else:
        with pytest.raises(ManifestError) as caught:
            check_update(old, new)
        assert change.wrong in str(caught.value)


def test_error_names_file_and_field() -> None:
    wrong = cluster(workerGroups=[{"name": "a"}, {"name": "b", "replicas": -1}])
    with pytest.raises(ManifestError) as caught:
        load_resource(wrong, source="job.yaml")
    assert str(caught.value).startswith("job.yaml: spec.workerGroups[1].replicas: ")
    assert caught.value.field == "spec.workerGroups[1].replicas"


@pytest.mark.parametrize(
    ("doc", "field"),
    [({"kind": "Pod"}, "kind"), ({"kind": ["GTJob"]}, "kind"), ({"kind": "GTJob", "apiVersion": "v1"}, "apiVersion")],
)
def test_other_kinds_are_refused(doc: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_resource(doc)
    assert caught.value.field == field


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(("plural", "definition"), definitions().items())
def test_crd_on_disk_is_up_to_date(folder: str, plural: str, definition: dict[str, Any]) -> None:
    text = render(definition)
    command = f"run `python -m gt_protocol.resources.crd {' '.join(FOLDERS)}`"
    assert (ROOT / folder / f"{plural}.yaml").read_text("utf-8") == text, command
    assert len(text) < LIMIT_OF_KUBECTL_APPLY


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


@pytest.mark.parametrize(("plural", "definition"), definitions().items())
def test_crd_is_structural_and_described(plural: str, definition: dict[str, Any]) -> None:
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, node in nodes(root):
        assert node.keys().isdisjoint({"$ref", "$defs", "anyOf", "oneOf", "const", "title"}), path
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        if path not in ("", ".apiVersion", ".kind", ".metadata") and not path.endswith("[]"):
            assert node.get("description"), f"{plural}{path} has no description"
        if node.get("type") == "array":
            # Rules of the API server about cost need a bound.
            assert "maxItems" in node, path


def test_nested_defaults_reach_the_crd() -> None:
    spec = structural_schema(GTJob)["properties"]["spec"]["properties"]
    group = spec["clusterTemplate"]["properties"]["spec"]["properties"]["workerGroups"]["items"]["properties"]
    assert group["device"]["default"] == {}
    assert group["device"]["properties"]["vendor"]["default"] == "cpu"
    assert "default" not in spec["template"]


def test_recursive_models_are_refused() -> None:
    with pytest.raises(ValueError, match="recursive"):
        structural_schema(Loop)


class Loop(Model):
    inner: Loop | None = None
