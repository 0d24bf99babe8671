"""The control groups that hold a node's pods (cgroup version 1)."""

from __future__ import annotations

from pathlib import Path

from .waiting import wait_until

ROOT = Path("/sys/fs/cgroup")


def supported() -> bool:
    """Say whether this machine mounts the version 1 hierarchies that the nodes are set up for."""
    return (ROOT / "memory").is_dir() and (ROOT / "cpuset").is_dir()


def of_node(node: str) -> list[Path]:
    """Return the node's group in each hierarchy, made or not."""
    return [hierarchy / node for hierarchy in ROOT.iterdir() if hierarchy.is_dir() and not hierarchy.is_symlink()]


def create(node: str) -> None:
    """Make the node's group in every hierarchy, below which its kubelet makes the pods' groups."""
    for group in of_node(node):
        # "unified" is version 2 beside version 1, without controllers; runc makes its groups there itself.
        if group.parent.name != "unified":
            group.mkdir(exist_ok=True)
        if group.parent.name == "cpuset":
            # A cpuset starts empty and takes no process until it is filled.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((group.parent / setting).read_text())


def remove(node: str, timeout: float = 10.0) -> None:
    """Remove the node's groups, whose processes must have ended.

    Raises:
        DeadlineError: The kernel still counts a process in one of them.
    """

    def all_gone() -> bool:
        for group in of_node(node):
            for inner in sorted(group.glob("**/"), key=lambda path: len(path.parts), reverse=True):
                _remove_one(inner)
        return not any(group.exists() for group in of_node(node))

    wait_until(all_gone, f"the control groups of {node} can be removed", timeout)


def _remove_one(group: Path) -> None:
    try:
        group.rmdir()
    except OSError:
        # Busy for a moment after its last process ended; the caller looks again.
        return
