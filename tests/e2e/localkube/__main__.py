"""The cluster by hand: ``python -m tests.e2e.localkube setup | up | load | kubeconfig | down``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from . import cluster, setup


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="localkube", description=__doc__)
    parser.add_argument("--name", default="dev", help="which cluster; several can run side by side")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("setup", help="install and build what a cluster needs")
    up = commands.add_parser("up", help="start a cluster, replacing one of the same name")
    up.add_argument("--nodes", type=int, default=2)
    load = commands.add_parser("load", help="import image archives into every node")
    load.add_argument("archives", nargs="+", type=Path)
    commands.add_parser("kubeconfig", help="print the path of the administrator's kubeconfig")
    commands.add_parser("down", help="remove the cluster and all that belongs to it")
    options = parser.parse_args()

    if options.command == "setup":
        setup.ensure()
    elif options.command == "up":
        _up(options.name, options.nodes)
    elif options.command == "load":
        running = cluster.attach(options.name)
        for archive in options.archives:
            running.load(archive)
    elif options.command == "kubeconfig":
        print(cluster.attach(options.name).kubeconfig)
    else:
        cluster.down(options.name)


def _up(name: str, node_count: int) -> None:
    started = time.monotonic()
    running = cluster.up(name, node_count)
    print(f"{node_count} nodes Ready after {time.monotonic() - started:.1f} s")
    print(f"export KUBECONFIG={running.kubeconfig}")


if __name__ == "__main__":
    main()
