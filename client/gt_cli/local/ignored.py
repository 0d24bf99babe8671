"""What of the manifests only a cluster can do, told in one line for each kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gt_protocol.resources.base import PodTemplate
from gt_protocol.resources.cluster import GTClusterSpec
from gt_protocol.resources.job import GTJobSpec

#: Fields of the job's container that a local run uses.
_USED: Final = frozenset({"command", "args", "env", "envFrom", "workingDir", "stdin", "tty"})


class Ignored:
    """Collects what is ignored, and where it stands."""

    def __init__(self) -> None:
        self._where: dict[str, dict[str, None]] = {}

    def add(self, kind: str, where: str) -> None:
        """Notes that something is ignored.

        Args:
            kind: What, such as `image` or `nodeSelector`.
            where: The object that asks for it.
        """
        self._where.setdefault(kind, {})[where] = None

    def lines(self) -> list[str]:
        """One line for each kind."""
        return [f"{kind} is ignored, only a cluster has it ({', '.join(where)})" for kind, where in self._where.items()]

    def cluster(self, owner: str, spec: GTClusterSpec) -> None:
        """Notes what of a cluster is ignored."""
        if spec.image is not None:
            self.add("image", owner)
        if spec.dispatcher.resources is not None:
            self.add("resources", owner)
        self._template(owner, spec.dispatcher.template, frozenset())
        for group in spec.worker_groups:
            if group.device.resource_name is not None:
                self.add("resourceName", owner)
            self._template(owner, group.template, frozenset())

    def job(self, owner: str, spec: GTJobSpec, container: str) -> None:
        """Notes what of a job is ignored.

        Args:
            owner: The job.
            spec: Its specification.
            container: Path of the container that is run.
        """
        if "backoff_limit" in spec.model_fields_set:
            self.add("backoffLimit", owner)
        self._template(owner, spec.template, _USED, container)

    def _template(self, owner: str, template: PodTemplate | None, used: frozenset[str], run: str = "") -> None:
        if template is None:
            return
        if template.metadata is not None:
            self.add("template.metadata", owner)
        if template.spec is None:
            return
        self._all(owner, template.spec.model_extra or {})
        for index, container in enumerate(template.spec.containers or []):
            if run and not run.endswith(f"containers[{index}]"):
                self.add(f"container {container.name}", owner)
                continue
            self._all(owner, (name for name in container.model_extra or {} if name not in used))

    def _all(self, owner: str, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.add(kind, owner)
