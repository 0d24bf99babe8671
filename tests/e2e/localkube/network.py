"""The nodes' network: a namespace each, joined by a bridge that leads nowhere else."""

from __future__ import annotations

from .layout import Layout, NodeLayout
from .processes import NAMESPACES
from .shell import run


def create(layout: Layout) -> None:
    """Make the bridge and the nodes' namespaces, and route the pods' addresses between them.

    Raises:
        CommandError: The machine refused a link, an address or a route.
    """
    run("ip", "link", "add", layout.bridge, "type", "bridge")
    run("ip", "addr", "replace", f"{layout.host_address}/24", "dev", layout.bridge)
    run("ip", "link", "set", layout.bridge, "up")
    for node in layout.nodes:
        _create_node(layout, node)
    for node in layout.nodes:
        for other in layout.nodes:
            if other != node:
                run("ip", "-n", node.name, "route", "replace", other.pod_cidr, "via", other.address)


def _create_node(layout: Layout, node: NodeLayout) -> None:
    run("ip", "netns", "add", node.name)
    run("ip", "link", "add", node.veth, "type", "veth", "peer", "name", "eth0", "netns", node.name)
    run("ip", "link", "set", node.veth, "master", layout.bridge, "up")
    run("ip", "-n", node.name, "addr", "replace", f"{node.address}/24", "dev", "eth0")
    run("ip", "-n", node.name, "link", "set", "eth0", "up")
    run("ip", "-n", node.name, "link", "set", "lo", "up")
    # Service addresses need some route before kube-proxy rewrites them; the bridge forwards nothing further.
    run("ip", "-n", node.name, "route", "replace", "default", "via", layout.host_address)
    in_node = ("nsenter", f"--net={NAMESPACES / node.name}")
    run(*in_node, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    # -e: the second name exists only where the kernel filters bridged packets, the case that needs it.
    run(*in_node, "sysctl", "-qew", "net.bridge.bridge-nf-call-iptables=1")


def remove(layout: Layout) -> None:
    """Remove what ``create`` made, as far as it is there."""
    for node in layout.nodes:
        run("ip", "netns", "del", node.name, check=False)
        run("ip", "link", "del", node.veth, check=False)
    run("ip", "link", "del", layout.bridge, check=False)
