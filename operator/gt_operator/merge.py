"""Laying one pod template over another, as a strategic merge patch does.

Maps are merged key by key, null removes a key, and lists are replaced, except for those whose items have a key: there,
an item replaces or joins the one of the same key, and others are added at the end.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gt_operator.errors import TemplateError
from gt_protocol.resources.constants import MAIN_CONTAINER


@dataclass(frozen=True)
class _Keyed:
    """How items of a list are told apart.

    Attributes:
        key: The field that identifies an item.
        whole: Whether an item replaces the one of its key. Items that hold one of several alternatives, such as a
            volume's kind, can't be merged: the result would hold two.
    """

    key: str
    whole: bool = False


_LISTS = {
    "containers": _Keyed("name"),
    "initContainers": _Keyed("name"),
    "volumes": _Keyed("name", whole=True),
    "env": _Keyed("name", whole=True),
    "volumeMounts": _Keyed("mountPath", whole=True),
    "volumeDevices": _Keyed("devicePath", whole=True),
    "ports": _Keyed("containerPort"),
    "imagePullSecrets": _Keyed("name", whole=True),
    "hostAliases": _Keyed("ip", whole=True),
    "topologySpreadConstraints": _Keyed("topologyKey"),
    "resourceClaims": _Keyed("name", whole=True),
}


def lay_over(base: Mapping[str, Any], overlay: Mapping[str, Any], main: str) -> dict[str, Any]:
    """Returns a pod template with another laid over it; neither is changed.

    Args:
        base: The pod template beneath.
        overlay: The pod template on top.
        main: Name of the container that `*` stands for.

    Raises:
        TemplateError: A field has another type in the overlay, or an item lacks its key.
    """
    return _merge_maps(base, overlay, main, "template")


def _merge_maps(base: Mapping[str, Any], overlay: Mapping[str, Any], main: str, path: str) -> dict[str, Any]:
    result = dict(copy.deepcopy(dict(base)))
    for name, value in overlay.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge_field(name, result.get(name), value, main, f"{path}.{name}")
    return result


def _merge_field(name: str, base: Any, value: Any, main: str, path: str) -> Any:
    if isinstance(value, Mapping):
        if base is not None and not isinstance(base, Mapping):
            raise TemplateError(f"{path}: must not be a map")
        return _merge_maps(base or {}, value, main, path)
    keyed = _LISTS.get(name)
    if keyed is not None:
        if not isinstance(value, list):
            raise TemplateError(f"{path}: must be a list")
        return _merge_items(base or [], value, keyed, main, path)
    if isinstance(base, Mapping):
        raise TemplateError(f"{path}: must be a map")
    return copy.deepcopy(value)


def _merge_items(base: list[Any], overlay: list[Any], keyed: _Keyed, main: str, path: str) -> list[Any]:
    result = list(base)
    for position, item in enumerate(overlay):
        where = f"{path}[{position}]"
        if not isinstance(item, Mapping) or keyed.key not in item:
            raise TemplateError(f"{where}: needs the field {keyed.key}")
        if path.endswith("spec.containers") and item["name"] == MAIN_CONTAINER:
            item = {**item, "name": main}
        same = next((at for at, each in enumerate(result) if each[keyed.key] == item[keyed.key]), None)
        beneath = {} if same is None or keyed.whole else result[same]
        merged = _merge_maps(beneath, item, main, where)
        if same is None:
            result.append(merged)
        else:
            result[same] = merged
    return result
