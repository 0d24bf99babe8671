"""Where a cluster keeps its files, and how its namespaces, links, cgroups and addresses are called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

STATE_ROOT = Path("/var/lib/gt-localkube")
CACHE = Path.home() / ".cache" / "gt-localkube"

CLUSTER_DOMAIN = "cluster.local"
SERVICE_CIDR = "10.96.0.0/16"
POD_CIDR = "10.244.0.0/16"

# Each cluster on a machine has a number of its own, which keeps their bridges and subnets apart.
MAX_CLUSTERS = 16


@dataclass(frozen=True)
class NodeLayout:
    """Names and addresses of one node."""

    name: str
    """Name of the node in Kubernetes, of its network namespace and of its cgroup."""
    address: str
    pod_cidr: str
    veth: str
    state: Path

    @property
    def containerd_socket(self) -> Path:
        """Socket of the node's own containerd."""
        return self.state / "containerd.sock"


@dataclass(frozen=True)
class Layout:
    """Names and addresses of one cluster."""

    name: str
    number: int
    node_count: int

    @property
    def state(self) -> Path:
        """Folder of everything that the running cluster writes."""
        return STATE_ROOT / self.name

    @property
    def bin(self) -> Path:
        """Folder of the programs built from source."""
        return CACHE / "bin"

    @property
    def pki(self) -> Path:
        """Folder of keys and certificates."""
        return self.state / "pki"

    @property
    def bridge(self) -> str:
        """The link that joins the nodes and the machine itself."""
        return f"gtlk{self.number}"

    @property
    def subnet(self) -> str:
        """The first three numbers of the nodes' addresses."""
        return f"10.89.{self.number}"

    @property
    def host_address(self) -> str:
        """The machine's own address on the bridge, with its prefix length."""
        return f"{self.subnet}.1"

    @property
    def api_server(self) -> str:
        """Address of the API server."""
        return f"https://{self.nodes[0].address}:6443"

    @property
    def nodes(self) -> list[NodeLayout]:
        """The nodes; the first one also runs the control plane."""
        return [
            NodeLayout(
                name=f"{self.bridge}-node-{index}",
                address=f"{self.subnet}.{index + 2}",
                pod_cidr=f"10.244.{index}.0/24",
                veth=f"{self.bridge}v{index}",
                state=self.state / f"node{index}",
            )
            for index in range(self.node_count)
        ]

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of the cluster's administrator."""
        return self.state / "admin.kubeconfig"


def existing(name: str) -> Layout | None:
    """Return the layout of the cluster ``name`` if there is one, running or left over."""
    record = _record(name)
    if not record.exists():
        return None
    number, node_count = record.read_text().split()
    return Layout(name, int(number), int(node_count))


def claim(name: str, node_count: int) -> Layout:
    """Reserve a number for the new cluster ``name`` and write it down.

    Raises:
        ValueError: The name can't be used, or too many clusters exist.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,20}", name):
        raise ValueError(f"'{name}' can't name a cluster: use up to 21 small letters, digits and '-'")
    taken = {int(record.read_text().split()[0]) for record in STATE_ROOT.glob("*/layout")}
    free = sorted(set(range(MAX_CLUSTERS)) - taken)
    if not free:
        raise ValueError(f"{MAX_CLUSTERS} clusters exist already; remove one with 'localkube down --name NAME'")
    layout = Layout(name, free[0], node_count)
    layout.state.mkdir(parents=True, exist_ok=True)
    _record(name).write_text(f"{layout.number} {layout.node_count}\n")
    return layout


def _record(name: str) -> Path:
    return STATE_ROOT / name / "layout"
