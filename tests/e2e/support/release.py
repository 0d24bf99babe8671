"""GT in a cluster: its Helm release, with the values that the tests need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.localkube.shell import run

from .image import ROOT, Image
from .kubectl import Kubectl

CHART = ROOT / "charts" / "gt"
_TORCH_MOUNT = "/opt/torch"


class Release:
    """One installation of the chart."""

    name = "gt"
    namespace = "gt-system"

    def __init__(self, helm: str, kubectl: Kubectl) -> None:
        self._helm_program = helm
        self._kubectl = kubectl

    def install(self, image: Image, torch_folder: Path | None) -> None:
        """Install the chart and return once the operator is ready.

        Args:
            image: What all pods run.
            torch_folder: A folder on the nodes that pods mount to find PyTorch; None if the image holds it.

        Raises:
            CommandError: helm failed, or the operator did not become ready.
        """
        values: dict[str, Any] = {"image": {"repository": image.repository, "tag": image.tag}}
        if torch_folder is not None:
            values["podOverlay"] = _torch_overlay(torch_folder)
        self._helm(
            "install",
            self.name,
            str(CHART),
            "--create-namespace",
            "--values=-",
            "--wait",
            "--timeout=90s",
            stdin=json.dumps(values),
        )

    def uninstall(self) -> None:
        """Remove the release and its namespace, as the README tells.

        Raises:
            CommandError: helm failed, or something did not go away.
        """
        self._helm("uninstall", self.name, "--wait", "--timeout=90s")
        self._kubectl("delete", "namespace", self.namespace, "--timeout=60s", timeout=70)

    def _helm(self, *arguments: str, stdin: str | None = None) -> str:
        where = ("--kubeconfig", str(self._kubectl.kubeconfig), "--namespace", self.namespace)
        return run(self._helm_program, *arguments, *where, stdin=stdin, timeout=120)


def _torch_overlay(folder: Path) -> dict[str, Any]:
    """Return a pod template overlay that mounts a folder of Python packages into every container of GT."""
    mount = {"name": "torch", "mountPath": _TORCH_MOUNT, "readOnly": True}
    container = {"name": "*", "env": [{"name": "PYTHONPATH", "value": _TORCH_MOUNT}], "volumeMounts": [mount]}
    volume = {"name": "torch", "hostPath": {"path": str(folder), "type": "Directory"}}
    return {"spec": {"containers": [container], "volumes": [volume]}}
