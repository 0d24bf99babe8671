"""Names that the operator, the chart, the commands and the tests share."""

from __future__ import annotations

from typing import Final

GROUP: Final = "gt.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "gt.dev/v1alpha1"

CLUSTER_KIND: Final = "GTCluster"
CLUSTER_PLURAL: Final = "gtclusters"
JOB_KIND: Final = "GTJob"
JOB_PLURAL: Final = "gtjobs"

CLUSTER_LABEL: Final = f"{GROUP}/cluster"
"""On everything made for a cluster: its name."""
JOB_LABEL: Final = f"{GROUP}/job"
"""On everything made for a job: its name."""
COMPONENT_LABEL: Final = f"{GROUP}/component"
"""On every pod: one of the components below."""
CLIENT_LABEL: Final = f"{GROUP}/client"
"""`true` on a pod that the operator did not make and that may reach the dispatchers of its namespace."""
WORKER_GROUP_LABEL: Final = f"{GROUP}/worker-group"
WORKER_INDEX_LABEL: Final = f"{GROUP}/worker-index"
"""The worker's place among all workers of its cluster, from 0, in the order of the groups."""

DISPATCHER: Final = "dispatcher"
WORKER: Final = "worker"
CLIENT: Final = "client"
"""Components, which are also the names of their pods' main containers."""

MAIN_CONTAINER: Final = "*"
"""Addresses the main container in a pod overlay, whatever the component."""

CLIENT_PORT: Final = 7070
WORKER_PORT: Final = 7071
HTTP_PORT: Final = 7080
