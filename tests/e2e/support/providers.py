"""Where the tests' cluster comes from: one that is given, kind, or one built from source on this machine."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from tests.e2e.localkube import cluster as localkube
from tests.e2e.localkube import setup
from tests.e2e.localkube.base_images import release_store
from tests.e2e.localkube.layout import CACHE, STATE_ROOT
from tests.e2e.localkube.shell import CommandError, run

from . import image as images
from .image import ROOT, Image

_BUILT_HELM = CACHE / "bin" / "helm"


class Unavailable(RuntimeError):
    """This machine lacks something that the tests need; the message says in one line what."""


class Provider(Protocol):
    """A source of a cluster that has the project's image."""

    torch_folder: Path | None
    """Folder on every node that holds PyTorch, to mount into pods whose image has none."""
    helm: str
    """The helm program to use."""

    def start(self) -> Path:
        """Start the cluster and return its administrator's kubeconfig.

        Raises:
            Unavailable: The machine lacks something.
        """

    def load_image(self) -> Image:
        """Make the project's image known to the nodes, and return its name."""

    def stop(self) -> None:
        """Remove the cluster if ``start`` made it, complete or not."""


def choose() -> Provider:
    """Return the provider for this machine and these environment variables."""
    given = os.environ.get("GT_E2E_KUBECONFIG")
    if given:
        return GivenCluster(Path(given))
    if shutil.which("kind") and _docker_engine_runs():
        return KindCluster()
    full_image = os.environ.get("GT_E2E_FULL_IMAGE") == "1"
    return SourceCluster(os.environ.get("GT_E2E_CLUSTER", "e2e"), full_image)


class GivenCluster:
    """A cluster that exists; ``GT_E2E_IMAGE`` names the full image, where its nodes can pull it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.torch_folder: Path | None = None
        self.helm = _helm()
        self._kubeconfig = kubeconfig
        repository, _, tag = os.environ.get("GT_E2E_IMAGE", "").rpartition(":")
        self._image = Image(repository, tag)

    def start(self) -> Path:
        _require_programs("kubectl", self.helm)
        if not self._kubeconfig.exists():
            raise Unavailable(f"GT_E2E_KUBECONFIG names a file that does not exist: {self._kubeconfig}")
        if not self._image.repository:
            raise Unavailable("with GT_E2E_KUBECONFIG set, GT_E2E_IMAGE must name the image as REPOSITORY:TAG")
        return self._kubeconfig

    def load_image(self) -> Image:
        return self._image

    def stop(self) -> None:
        """Leave the cluster, which is not ours."""


class KindCluster:
    """A cluster of containers, with the full image built by the same engine."""

    _NAME = "gt-e2e"

    def __init__(self) -> None:
        self.torch_folder: Path | None = None
        self.helm = _helm()
        self._kubeconfig = CACHE / "kind.kubeconfig"

    def start(self) -> Path:
        _require_programs("kubectl", self.helm)
        CACHE.mkdir(parents=True, exist_ok=True)
        self.stop()
        config = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: control-plane}, {role: worker}]\n"
        self._kind("create", "cluster", "--config=-", "--wait=120s", stdin=config)
        return self._kubeconfig

    def load_image(self) -> Image:
        image = Image("localhost/gt", "full")
        run("docker", "build", "--quiet", "--tag", image.name, str(ROOT), timeout=3600)
        run("kind", "load", "docker-image", image.name, "--name", self._NAME, timeout=1800)
        return image

    def stop(self) -> None:
        self._kind("delete", "cluster")

    def _kind(self, *arguments: str, stdin: str | None = None) -> None:
        options = ("--name", self._NAME, "--kubeconfig", str(self._kubeconfig))
        run("kind", *arguments, *options, stdin=stdin, timeout=600)


class SourceCluster:
    """A cluster built from source on this machine.

    Its pods mount PyTorch from the environment that runs the tests, which saves an image of several gigabytes, unless
    the full image is asked for.
    """

    # Mounted packages must fit the Python of the image's Debian release.
    _IMAGE_PYTHON = (3, 11)

    def __init__(self, name: str, full_image: bool) -> None:
        self.helm = str(_BUILT_HELM)
        self.torch_folder = None if full_image else _folder_of_torch()
        self._full_image = full_image
        self._name = name
        self._cluster: localkube.Cluster | None = None
        self._held = ExitStack()

    def start(self) -> Path:
        reason = setup.obstacle() or setup.not_set_up() or self._can_not_mount_torch()
        if reason is not None:
            raise Unavailable(reason)
        self._hold_name()
        # One copy of the full image takes 13 GB of a node's disk.
        self._cluster = localkube.up(self._name, node_count=1 if self._full_image else 2)
        return self._cluster.kubeconfig

    def _can_not_mount_torch(self) -> str | None:
        if self._full_image:
            return None
        if sys.version_info[:2] != self._IMAGE_PYTHON:
            return "pods can mount PyTorch only from an environment with Python 3.11"
        if self.torch_folder is None:
            return "the environment that runs the tests has no PyTorch for pods to mount"
        return None

    def load_image(self) -> Image:
        assert self._cluster is not None
        image = images.build(with_torch=self._full_image)
        self._cluster.load(images.archive(image))
        return image

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.remove()
            release_store()
        self._held.close()

    def _hold_name(self) -> None:
        """Keep a second run from removing this run's cluster as a left-over."""
        STATE_ROOT.mkdir(parents=True, exist_ok=True)
        lock = self._held.enter_context((STATE_ROOT / f"{self._name}.lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(
                f"another run uses the cluster '{self._name}'; set GT_E2E_CLUSTER to another name"
            ) from error


def _helm() -> str:
    """Return the machine's own helm, or the one that a cluster from source has left in the cache."""
    return shutil.which("helm") or (str(_BUILT_HELM) if _BUILT_HELM.exists() else "helm")


def _require_programs(*programs: str) -> None:
    lacking = [program for program in programs if shutil.which(program) is None]
    if lacking:
        raise Unavailable(f"missing: {', '.join(lacking)}")


def _docker_engine_runs() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        run("docker", "info", timeout=20)
    except CommandError:
        return False
    return True


def _folder_of_torch() -> Path | None:
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parents[1] if found is not None and found.origin is not None else None
