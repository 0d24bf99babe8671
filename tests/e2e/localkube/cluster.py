"""Bringing a whole cluster up, adding images to it, and removing every trace of it."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from . import cgroups, leftovers, network
from .base_images import pause_archive
from .containerd import Containerd
from .control_plane import ControlPlane
from .credentials import ADMIN, Credentials
from .layout import STATE_ROOT, Layout, claim, existing
from .node import Node
from .processes import Processes, end_all
from .shell import run
from .waiting import wait_until

_NODES_TIMEOUT = 90.0


class Cluster:
    """A running cluster."""

    def __init__(self, layout: Layout, processes: Processes) -> None:
        self.layout = layout
        self._processes = processes

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the cluster's administrator."""
        return self.layout.admin_kubeconfig

    @property
    def logs(self) -> Path:
        """Folder with one log for each program of the cluster."""
        return self._processes.logs

    def remove(self) -> None:
        """Remove the cluster, as ``down`` does, and reap the programs that this process started."""
        down(self.layout.name)
        self._processes.reap()

    def load(self, archive: Path) -> None:
        """Import an image archive into every node.

        Raises:
            CommandError: A node could not import it.
        """
        nodes = [Containerd(node, self._processes) for node in self.layout.nodes]
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: node.import_image(archive), nodes))


def up(name: str, node_count: int = 2) -> Cluster:
    """Start a cluster of that name, after removing one that is left over, and wait until its nodes are Ready.

    Raises:
        ValueError: The name can't be used, or too many clusters exist.
        DeadlineError: A part did not start in time.
        RuntimeError: A part ended by itself; the message ends with its log.
    """
    down(name)
    with _machine_lock():
        layout = claim(name, node_count)
    try:
        return _start(layout)
    except BaseException:
        # Also on Ctrl-C: half a cluster is of no use and would keep the machine's memory.
        down(name)
        raise


def _start(layout: Layout) -> Cluster:
    archive = pause_archive()
    network.create(layout)
    processes = Processes(layout.state / "logs")
    credentials = Credentials(layout)
    ControlPlane(layout, credentials, processes).start()
    nodes = [Node(layout, node, credentials, processes) for node in layout.nodes]
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: node.start(archive), nodes))
    cluster = Cluster(layout, processes)
    _wait_for_nodes(credentials.kubeconfig(ADMIN), layout, processes)
    return cluster


def attach(name: str) -> Cluster:
    """Return the running cluster of that name, started by another process.

    Raises:
        ValueError: There is no such cluster.
    """
    layout = existing(name)
    if layout is None or not layout.admin_kubeconfig.exists():
        raise ValueError(f"there is no cluster '{name}'; start one with 'localkube up --name {name}'")
    return Cluster(layout, Processes(layout.state / "logs"))


def down(name: str) -> None:
    """Remove a cluster with all its processes, mounts, namespaces, control groups and files.

    Works from what the machine shows and not from the memory of the process that started it, so it also removes
    what a killed run left. Does nothing if there is no such cluster.

    Raises:
        DeadlineError: Some process did not end in time.
    """
    layout = existing(name)
    if layout is None:
        return
    groups = [group for node in layout.nodes for group in cgroups.of_node(node.name) if group.exists()]
    end_all((node.name for node in layout.nodes), groups)
    leftovers.remove(layout)
    _unmount_below(layout.state)
    network.remove(layout)
    for node in layout.nodes:
        cgroups.remove(node.name)
    shutil.rmtree(layout.state)


def _unmount_below(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    # Later mounts may lie on earlier ones.
    for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(folder)]):
        run("umount", "--lazy", mount)


def _wait_for_nodes(kubeconfig: Path, layout: Layout, processes: Processes) -> None:
    def all_ready() -> bool:
        for node in layout.nodes:
            processes.check_alive(f"kubelet-{node.name}")
        listing = run("kubectl", f"--kubeconfig={kubeconfig}", "get", "nodes", "-o", "json", check=False)
        ready = [
            condition
            for node in json.loads(listing or '{"items": []}')["items"]
            for condition in node["status"].get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        return len(ready) == len(layout.nodes)

    wait_until(all_ready, "all nodes are Ready", _NODES_TIMEOUT, interval=0.3)


@contextmanager
def _machine_lock() -> Iterator[None]:
    """Let one process at a time choose a number for its cluster."""
    STATE_ROOT.mkdir(parents=True, exist_ok=True)
    with (STATE_ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
