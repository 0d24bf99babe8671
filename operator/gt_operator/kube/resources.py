"""Where kinds are found in the API. Fixed, so that the operator asks the API server for no discovery."""

from __future__ import annotations

from dataclasses import dataclass

from gt_protocol.resources.constants import CLUSTER_PLURAL, GROUP, JOB_PLURAL, VERSION


@dataclass(frozen=True)
class Resource:
    """Where a kind is found.

    Attributes:
        group: API group; empty for the core.
        version: Version of the group.
        plural: Name of the kind in paths.
    """

    group: str
    version: str
    plural: str

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Returns the path of all objects, of those of a namespace, or of one."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


RESOURCES = {
    "GTCluster": Resource(GROUP, VERSION, CLUSTER_PLURAL),
    "GTJob": Resource(GROUP, VERSION, JOB_PLURAL),
    "ConfigMap": Resource("", "v1", "configmaps"),
    "Event": Resource("", "v1", "events"),
    "Pod": Resource("", "v1", "pods"),
    "ResourceQuota": Resource("", "v1", "resourcequotas"),
    "Secret": Resource("", "v1", "secrets"),
    "Service": Resource("", "v1", "services"),
    "ServiceAccount": Resource("", "v1", "serviceaccounts"),
    "Deployment": Resource("apps", "v1", "deployments"),
    "Job": Resource("batch", "v1", "jobs"),
    "Lease": Resource("coordination.k8s.io", "v1", "leases"),
    "NetworkPolicy": Resource("networking.k8s.io", "v1", "networkpolicies"),
    "PodDisruptionBudget": Resource("policy", "v1", "poddisruptionbudgets"),
}
