"""Checking a manifest against the models, as the API server would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gt_protocol.errors import ManifestError
from gt_protocol.resources.base import Model
from gt_protocol.resources.cluster import GTCluster
from gt_protocol.resources.constants import API_VERSION, CLUSTER_KIND, JOB_KIND
from gt_protocol.resources.job import GTJob

_MODELS: dict[str, type[GTCluster] | type[GTJob]] = {CLUSTER_KIND: GTCluster, JOB_KIND: GTJob}


def load_resource(doc: Mapping[str, Any], *, source: str = "") -> GTCluster | GTJob:
    """Validates one document of a manifest.

    Args:
        doc: The document, as read from YAML.
        source: What errors name as the document's origin.

    Raises:
        ManifestError: It is no GTCluster or GTJob, or breaks a rule; the error names the field.
    """
    kind = doc.get("kind")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ManifestError(f"must be {CLUSTER_KIND} or {JOB_KIND}, not {kind!r}", source=source, field="kind")
    if doc.get("apiVersion") != API_VERSION:
        raise ManifestError(f"must be {API_VERSION}, not {doc.get('apiVersion')!r}", source=source, field="apiVersion")
    try:
        return model.model_validate(doc)
    except ValidationError as error:
        # A misspelt field often makes another one missing; its name is what helps.
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
        raise ManifestError(_message(first), source=source, field=_path(first["loc"])) from None


def check_update(old: GTCluster | GTJob, new: GTCluster | GTJob) -> None:
    """Checks the rules about changing an object.

    Raises:
        ManifestError: The change is not allowed.
    """
    _check_transitions(old, new, "")


def _check_transitions(old: Model, new: Model, path: str) -> None:
    for transition in new.transitions:
        if not transition.holds(old, new):
            raise ManifestError(transition.message, field=path)
    for name, field in type(new).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        # Items of lists are compared by rules of the object that holds the list, never by their position.
        if isinstance(before, Model) and isinstance(after, Model):
            _check_transitions(before, after, f"{path}.{field.alias}".lstrip("."))


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _message(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such field"
    if error["type"] == "missing":
        return "is required"
    return error["msg"].removeprefix("Value error, ")
