"""Compute resources of containers that say nothing, or not everything, about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

DEFAULT_REQUESTS: Final = {"cpu": "100m", "memory": "256Mi"}
"""Requested unless something else is. A container without any request gets next to no time on a busy node, and is the
first to go when memory runs short."""

THREADS: Final = "OMP_NUM_THREADS"
"""The variable that tells PyTorch how many threads to use."""


def with_defaults(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Returns resources with a request for CPU and memory. A limit alone counts as a request of as much."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in limits}
    return {**resources, "requests": {**missing, **requests}}


def threads(resources: Mapping[str, Any]) -> int:
    """Returns how many threads suit a container: as many as it may use CPUs, else as many as it has reserved.

    PyTorch would start one for each CPU of the node, in each of the containers that share them.
    """
    for kind in ("limits", "requests"):
        amount = (resources.get(kind) or {}).get("cpu")
        if amount is not None:
            return max(1, math.ceil(_cpus(str(amount))))
    return 1


def _cpus(amount: str) -> float:
    number, scale = (amount[:-1], 0.001) if amount.endswith("m") else (amount, 1.0)
    try:
        return float(number) * scale
    except ValueError:
        # The API server will say what is wrong with it.
        return 1.0
