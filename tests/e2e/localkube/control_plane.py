"""The control plane: etcd, the API server, its controllers, the scheduler and the cluster's DNS."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request

from .credentials import CONTROLLER_MANAGER, COREDNS, SCHEDULER, Credentials
from .layout import CLUSTER_DOMAIN, SERVICE_CIDR, Layout
from .processes import Processes
from .waiting import wait_until

_ETCD = "http://127.0.0.1:2379"
_START_TIMEOUT = 90.0


class ControlPlane:
    """Runs the control plane's programs in the first node's namespace."""

    def __init__(self, layout: Layout, credentials: Credentials, processes: Processes) -> None:
        self._layout = layout
        self._credentials = credentials
        self._processes = processes
        self._host = layout.nodes[0]

    def start(self) -> None:
        """Start all parts and return once the API server is ready.

        Raises:
            DeadlineError: The API server did not become ready in time.
            RuntimeError: A part ended by itself; the message ends with its log.
        """
        self._credentials.write()
        self._start_etcd()
        self._start_api_server()
        self._wait_for_api_server()
        self._start_controllers()
        self._start_dns()

    def _start(self, name: str, *command: str) -> None:
        built = self._layout.bin / name
        self._processes.start(name, self._host.name, built if built.exists() else name, *command)

    def _start_etcd(self) -> None:
        self._start(
            "etcd",
            f"--data-dir={self._layout.state / 'etcd'}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            # The data does not outlive the machine's next start, so waiting for the disk buys nothing.
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_api_server(self) -> None:
        key = self._credentials.service_account_key
        self._start(
            "kube-apiserver",
            f"--etcd-servers={_ETCD}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            f"--token-auth-file={self._credentials.tokens_file}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--cert-dir={self._layout.pki}",
            # Node names are in no DNS, which is where 'logs' and 'exec' would look for them first.
            "--kubelet-preferred-address-types=InternalIP",
            "--bind-address=0.0.0.0",
            "--secure-port=6443",
            f"--advertise-address={self._host.address}",
            "--allow-privileged=true",
        )

    def _wait_for_api_server(self) -> None:
        def ready() -> bool:
            self._processes.check_alive("etcd")
            self._processes.check_alive("kube-apiserver")
            if not self._credentials.authority.exists():
                return False
            try:
                context = ssl.create_default_context(cafile=str(self._credentials.authority))
                with urllib.request.urlopen(f"{self._layout.api_server}/readyz", context=context, timeout=2):
                    return True
            except (urllib.error.URLError, OSError):
                return False

        wait_until(ready, "the API server is ready", _START_TIMEOUT)

    def _start_controllers(self) -> None:
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self._credentials.kubeconfig(CONTROLLER_MANAGER)}",
            f"--service-account-private-key-file={self._credentials.service_account_key}",
            f"--root-ca-file={self._credentials.authority}",
            "--allocate-node-cidrs=false",
            "--leader-elect=false",
            "--node-monitor-grace-period=20s",
            "--node-monitor-period=2s",
        )
        self._start(
            "kube-scheduler",
            f"--kubeconfig={self._credentials.kubeconfig(SCHEDULER)}",
            "--leader-elect=false",
        )

    def _start_dns(self) -> None:
        """Start CoreDNS as a plain process on the first node's address, which the kubelets give to pods."""
        corefile = self._layout.state / "Corefile"
        corefile.write_text(
            f".:53 {{\n"
            f"    errors\n"
            f"    bind {self._host.address}\n"
            f"    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{\n"
            f"        kubeconfig {self._credentials.kubeconfig(COREDNS)}\n"
            f"        ttl 5\n"
            f"    }}\n"
            f"    cache 5\n"
            f"}}\n"
        )
        self._start("coredns", "-conf", str(corefile))
