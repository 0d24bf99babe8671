"""Looking at sharding files in ConfigMaps."""

from __future__ import annotations

from gt_operator.kube.named_watches import NamedWatches, Target
from gt_operator.observe.sharding import NO_SHARDING, Verdict, check_config_map
from gt_protocol.resources.base import ConfigMapKeyRef


def target_of(ref: ConfigMapKeyRef, namespace: str) -> Target:
    """What to watch for a sharding file."""
    return Target("ConfigMap", namespace, ref.name)


async def check(watches: NamedWatches, ref: ConfigMapKeyRef | None, namespace: str, workers: int | None) -> Verdict:
    """Checks a sharding file, or the lack of one.

    Raises:
        KubeError: The ConfigMap can't be read.
    """
    if ref is None:
        return NO_SHARDING
    return check_config_map(ref, await watches.read(target_of(ref, namespace)), workers)
