"""Noticing that there is room in a quota again.

Nothing tells the operator that a write would be allowed now, so it watches the quotas of a namespace that refused one.
Its own writes are then tried again at once. The pods of a Deployment are made by Kubernetes, which waits longer after
each refusal, up to a quarter of an hour; a changed annotation reaches the ReplicaSet and makes it try at once.
"""

from __future__ import annotations

from typing import Final

from gt_operator.kube.client import KubeClient
from gt_operator.kube.named_watches import NamedWatches, Target
from gt_operator.objects import Object, annotation_of, digest, name_of, namespace_of
from gt_operator.observe import blockers

QUOTA_ANNOTATION: Final = "gt.dev/tried-under-quota"
"""On a Deployment that was refused pods: digest of the quotas when it was last made to try."""


def target_of(namespace: str) -> Target:
    """What to watch."""
    return Target("ResourceQuota", namespace)


async def retry_deployment(client: KubeClient, watches: NamedWatches, deployment: Object | None) -> None:
    """Makes Kubernetes try again to make a Deployment's pods, if the quotas that refused them have changed.

    Raises:
        KubeError: The call failed.
    """
    # The reason that it shows is that of its first refusal, and may not be that of its last.
    if deployment is None or blockers.of_deployment(deployment) is None:
        return
    quotas = watches.current(target_of(namespace_of(deployment)))
    if quotas is None:
        return
    now = digest([[name_of(quota), quota.get("status")] for quota in quotas])
    if annotation_of(deployment, QUOTA_ANNOTATION) != now:
        body = {"metadata": {"annotations": {QUOTA_ANNOTATION: now}}}
        await client.patch("Deployment", namespace_of(deployment), name_of(deployment), body)
