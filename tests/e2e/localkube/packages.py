"""The Debian packages that the cluster's recipe needs."""

from __future__ import annotations

import shutil

from .shell import run

# Package, and a program that shows it is installed (None: ask the package manager's own list).
PACKAGES: dict[str, str | None] = {
    "etcd-server": "etcd",
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": None,
    "iptables": "iptables",
    "conntrack": "conntrack",
    "iproute2": "ip",
    "procps": "sysctl",
    "util-linux": "nsenter",
    "openssl": "openssl",
    "socat": "socat",
    "busybox-static": None,
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "debian-archive-keyring": None,
}

_APT = ("apt-get", "-qq", "--option=DPkg::Lock::Timeout=300")
_APT_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive"}


def missing() -> list[str]:
    """Return the packages that are not installed."""
    return [package for package, program in PACKAGES.items() if not _installed(package, program)]


def install_missing() -> None:
    """Install what is missing; does nothing once all is there.

    Raises:
        CommandError: The package manager failed.
    """
    wanted = missing()
    if not wanted:
        return
    print(f"installing {' '.join(wanted)}", flush=True)
    run(*_APT, "update", env=_APT_ENVIRONMENT, timeout=300)
    run(*_APT, "install", "-y", "--no-install-recommends", *wanted, env=_APT_ENVIRONMENT, timeout=900)


def _installed(package: str, program: str | None) -> bool:
    if program is not None:
        return shutil.which(program) is not None
    status = run("dpkg-query", "--show", "--showformat", "${Status}", package, check=False)
    return "ok installed" in status
