"""One node: its containerd, kubelet and kube-proxy in a network namespace of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from . import cgroups
from .containerd import Containerd
from .credentials import PROXY, Credentials, kubelet_account
from .layout import CLUSTER_DOMAIN, POD_CIDR, Layout, NodeLayout
from .processes import Processes


class Node:
    """Starts the programs of one node."""

    def __init__(self, layout: Layout, node: NodeLayout, credentials: Credentials, processes: Processes) -> None:
        self._layout = layout
        self._node = node
        self._credentials = credentials
        self._processes = processes
        self._containerd = Containerd(node, processes)

    def start(self, pause_archive: Path) -> None:
        """Start all programs; the node registers itself and becomes Ready some seconds later.

        Args:
            pause_archive: The image that holds each pod's namespaces open.

        Raises:
            DeadlineError: containerd did not answer in time.
        """
        self._containerd.start()
        self._containerd.import_image(pause_archive)
        cgroups.create(self._node.name)
        self._start_kubelet()
        self._start_proxy()

    def _start_kubelet(self) -> None:
        resolv_conf = self._node.state / "resolv.conf"
        resolv_conf.write_text(f"nameserver {self._dns_address}\n")
        self._processes.start(
            f"kubelet-{self._node.name}",
            self._node.name,
            self._layout.bin / "kubelet",
            f"--config={self._write('kubelet.json', self._kubelet_config(resolv_conf))}",
            f"--kubeconfig={self._credentials.kubeconfig(kubelet_account(self._node.name))}",
            f"--hostname-override={self._node.name}",
            f"--node-ip={self._node.address}",
            f"--root-dir={self._node.state / 'kubelet'}",
            f"--cert-dir={self._node.state / 'pki'}",
        )

    def _kubelet_config(self, resolv_conf: Path) -> Mapping[str, object]:
        return {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            # Its port is reachable only on this machine's own bridge.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._node.containerd_socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._node.name}",
            # Several kubelets share the machine: none may limit the whole of it.
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "clusterDNS": [self._dns_address],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": str(resolv_conf),
            "podLogsDir": str(self._node.state / "pod-logs"),
            "nodeStatusUpdateFrequency": "2s",
            "nodeStatusReportFrequency": "10s",
            "syncFrequency": "10s",
            "serializeImagePulls": False,
            # The machine's disk is shared with much else, and an evicted pod would tell about that, not about GT.
            "evictionHard": {
                "memory.available": "50Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "readOnlyPort": 0,
        }

    def _start_proxy(self) -> None:
        config = {
            "kind": "KubeProxyConfiguration",
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "mode": "iptables",
            "clusterCIDR": POD_CIDR,
            "hostnameOverride": self._node.name,
            "clientConnection": {"kubeconfig": str(self._credentials.kubeconfig(PROXY))},
            # These limits belong to the whole machine, whose settings a namespace can't write.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        self._processes.start(
            f"kube-proxy-{self._node.name}",
            self._node.name,
            self._layout.bin / "kube-proxy",
            f"--config={self._write('kube-proxy.json', config)}",
        )

    @property
    def _dns_address(self) -> str:
        return self._layout.nodes[0].address

    def _write(self, name: str, content: Mapping[str, object]) -> Path:
        path = self._node.state / name
        path.write_text(json.dumps(content, indent=1))
        return path
