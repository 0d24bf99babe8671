"""A node's own containerd: its configuration, its pods' network, and the images it holds."""

from __future__ import annotations

import json
from pathlib import Path

from .layout import POD_CIDR, NodeLayout
from .processes import Processes
from .shell import run
from .waiting import wait_until

PAUSE_IMAGE = "localhost/gt-pause:local"
_CNI_PLUGINS = "/usr/lib/cni"


class Containerd:
    """Runs one containerd and talks to it."""

    def __init__(self, node: NodeLayout, processes: Processes) -> None:
        self._node = node
        self._processes = processes
        self._name = f"containerd-{node.name}"

    def start(self, timeout: float = 30.0) -> None:
        """Start it and return once it answers.

        Raises:
            DeadlineError: It did not answer in time.
            RuntimeError: It ended by itself; the message ends with its log.
        """
        self._node.state.mkdir(parents=True, exist_ok=True)
        config = self._node.state / "containerd.toml"
        config.write_text(_config(self._node, self._write_network()))
        self._processes.start(self._name, self._node.name, "containerd", "-c", config)

        def answers() -> bool:
            self._processes.check_alive(self._name)
            return bool(self._ctr("version", check=False))

        wait_until(answers, f"containerd on {self._node.name} answers", timeout)

    def import_image(self, archive: Path) -> None:
        """Add the image in a docker-archive or OCI archive to what pods here can use without pulling."""
        self._ctr("images", "import", str(archive))

    def _ctr(self, *arguments: str, check: bool = True) -> str:
        socket = self._node.containerd_socket
        return run("ctr", "-a", socket, "-n", "k8s.io", *arguments, check=check, timeout=600)

    def _write_network(self) -> Path:
        """Write the pods' network configuration and return its folder."""
        folder = self._node.state / "cni"
        folder.mkdir(exist_ok=True)
        addresses = {
            "type": "host-local",
            "dataDir": str(self._node.state / "ipam"),
            "ranges": [[{"subnet": self._node.pod_cidr}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": POD_CIDR}],
        }
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": addresses,
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        network = {"cniVersion": "0.4.0", "name": "localkube", "plugins": [bridge, ports]}
        (folder / "10-localkube.conflist").write_text(json.dumps(network, indent=1))
        return folder


def _config(node: NodeLayout, network: Path) -> str:
    # restrict_oom_score_adj: without the right to lower that score (CAP_SYS_RESOURCE) runc can't start a container.
    # netns_mounts_under_state_dir: pods' namespaces are then found, and unmounted, with the rest of the node's state.
    return f"""\
version = 2
root = "{node.state}/containerd"
state = "{node.state}/containerd-run"

[grpc]
  address = "{node.containerd_socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_CNI_PLUGINS}"
    conf_dir = "{network}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{node.state}/runc"
"""
