"""Files outside a cluster's own folder that its killed programs had no chance to remove."""

from __future__ import annotations

from pathlib import Path

from .layout import Layout, NodeLayout

_SHIM_SCHEME = "unix://"
_CNI_RESULTS = Path("/var/lib/cni/results")
# Where a kubelet puts links to containers' logs; no setting moves it.
_LOG_LINKS = Path("/var/log/containers")


def remove(layout: Layout) -> None:
    """Remove what belongs to this cluster, while its own folder, which says what that is, still exists."""
    for node in layout.nodes:
        for container in _containers(node):
            _remove_shim_socket(container)
            for result in _CNI_RESULTS.glob(f"*-{container.name}-*"):
                result.unlink(missing_ok=True)
    for link in _LOG_LINKS.glob("*"):
        if link.is_symlink() and link.readlink().is_relative_to(layout.state):
            link.unlink(missing_ok=True)


def _containers(node: NodeLayout) -> list[Path]:
    """Return the folder that containerd keeps of each container, named by the container's id."""
    return list((node.state / "containerd-run" / "io.containerd.runtime.v2.task" / "k8s.io").glob("*"))


def _remove_shim_socket(container: Path) -> None:
    address = container / "address"
    # Only the first container of a pod has a shim of its own.
    if address.exists():
        Path(address.read_text().strip().removeprefix(_SHIM_SCHEME)).unlink(missing_ok=True)
