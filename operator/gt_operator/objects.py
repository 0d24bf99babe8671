"""Kubernetes objects as plain values, and the few questions that are asked of all of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]

FIELD_MANAGER: Final = "gt-operator"
HASH_ANNOTATION: Final = "gt.dev/hash"
"""On a worker's pod: the digest of what GT asked for."""
KEYS_ANNOTATION: Final = "gt.dev/keys"
"""On every pod: the fingerprint of the cluster's keys."""
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": FIELD_MANAGER}


@dataclass(frozen=True, order=True)
class Key:
    """Which object is to be reconciled."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def name_of(obj: Object) -> str:
    """Name of an object."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Object) -> str:
    """Namespace of an object."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Object) -> str:
    """Identity of an object; empty before the API server knows it."""
    return str(obj["metadata"].get("uid", ""))


def label_of(obj: Object, label: str) -> str:
    """Value of a label; empty if it isn't there."""
    return str((obj["metadata"].get("labels") or {}).get(label, ""))


def annotation_of(obj: Object, annotation: str) -> str:
    """Value of an annotation; empty if it isn't there."""
    return str((obj["metadata"].get("annotations") or {}).get(annotation, ""))


def is_going(obj: Object) -> bool:
    """Whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def owner_uid(obj: Object) -> str:
    """Identity of the object's controller; empty if it has none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def condition_of(obj: Object, kind: str) -> Object:
    """A condition of an object; empty if it isn't there."""
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == kind), {})


def digest(value: Any) -> str:
    """Short digest of a JSON value that doesn't depend on the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
