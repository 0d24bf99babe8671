"""Whether a sharding file can be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gt_operator.objects import Object
from gt_protocol.errors import ShardingError
from gt_protocol.resources.base import ConfigMapKeyRef
from gt_protocol.sharding import parse_sharding

SHARDING_INVALID: Final = "ShardingInvalid"
SHARDING_NOT_FOUND: Final = "ShardingNotFound"


@dataclass(frozen=True)
class Verdict:
    """What is to be said about a sharding file.

    Attributes:
        valid: Whether programs can start with it.
        reason: One word, for a condition's reason.
        message: Why, for a person.
    """

    valid: bool
    reason: str
    message: str


NO_SHARDING = Verdict(True, "NoSharding", "there is no sharding file")


def check_config_map(ref: ConfigMapKeyRef, config_map: Object | None, workers: int | None) -> Verdict:
    """Checks the file in a ConfigMap.

    Args:
        ref: Where the file should be.
        config_map: The ConfigMap; None if it doesn't exist.
        workers: Size of the cluster; None if it isn't known.
    """
    if config_map is None:
        return Verdict(False, SHARDING_NOT_FOUND, f"there is no ConfigMap {ref.name}; make it")
    text = (config_map.get("data") or {}).get(ref.key)
    if text is None:
        return Verdict(False, SHARDING_NOT_FOUND, f"ConfigMap {ref.name} has no key {ref.key}; add it")
    return check_text(text, f"ConfigMap {ref.name}, {ref.key}", workers)


def check_text(text: str, source: str, workers: int | None) -> Verdict:
    """Checks a file's text."""
    try:
        parse_sharding(text, source=source, workers=workers)
    except ShardingError as error:
        return Verdict(False, SHARDING_INVALID, str(error))
    return Verdict(True, "ShardingValid", f"{source} can be used")
