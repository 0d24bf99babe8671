"""Jobs with all references resolved, ready to run here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gt_cli.errors import CommandError
from gt_cli.local.command import job_environment, local_command
from gt_cli.local.container import ContainerProcess, read_container
from gt_cli.local.ignored import Ignored
from gt_cli.local.manifests import ConfigRef, Found, Manifests
from gt_protocol import settings
from gt_protocol.errors import ManifestError, ShardingError
from gt_protocol.resources import GTJob
from gt_protocol.resources.base import ConfigMapKeyRef
from gt_protocol.resources.cluster import GTClusterSpec
from gt_protocol.sharding import parse_sharding


@dataclass(frozen=True)
class FleetPlan:
    """A cluster, as a local fleet.

    Attributes:
        owner: The object that describes it, as in `GTCluster shared`.
        workers: Number of workers.
        vendors: Vendors of their devices.
        sharding: The cluster's sharding file, or None.
    """

    owner: str
    workers: int
    vendors: frozenset[str]
    sharding: str | None


@dataclass(frozen=True)
class JobPlan:
    """A job, as a process of this machine.

    Attributes:
        name: Name of the job.
        fleet: The fleet that it runs on.
        sharding: The job's sharding file, or None.
        process: What its container says.
        folder: Working directory.
        source: Where its command stands.
    """

    name: str
    fleet: FleetPlan
    sharding: str | None
    process: ContainerProcess
    folder: Path
    source: str

    def command(self, given: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Command and environment.

        Args:
            given: GT's settings for the job.

        Raises:
            ManifestError: This machine has no such program.
        """
        env = job_environment({**self.process.env, **given})
        try:
            return local_command(self.process.arguments(given), env, self.folder), env
        except CommandError as error:
            raise ManifestError(str(error), source=self.source, field=f"{self.process.field}.command") from None


def make_plans(manifests: Manifests, names: Iterable[str]) -> tuple[list[JobPlan], Ignored]:
    """Resolves jobs.

    Args:
        manifests: All objects.
        names: Names of the jobs to run; none means all.

    Returns:
        The jobs, in order of appearance, and what of them only a cluster can do.

    Raises:
        CommandError: There is no such job.
        ManifestError: A job can't be run as it is; the error names file, line and field.
        ShardingError: A sharding file is wrong.
    """
    wanted = list(names)
    present = [job.key[1] for job in manifests.jobs.values()]
    for name in wanted:
        if name not in present:
            raise CommandError(f"there is no GTJob {name!r} in the files; there are: {', '.join(present) or 'none'}")
    if not present:
        raise CommandError("there is no GTJob in the files")
    ignored = Ignored()
    for kind, objects in manifests.others.items():
        ignored.add(kind, ", ".join(objects))
    chosen = [job for job in manifests.jobs.values() if not wanted or job.key[1] in wanted]
    plans = [_plan(job, manifests, ignored) for job in chosen]
    for plan in plans:
        # What is missing on this machine is told before anything starts.
        plan.command({})
    return plans, ignored


def _plan(job: Found[GTJob], manifests: Manifests, ignored: Ignored) -> JobPlan:
    spec = job.object.spec
    if spec.suspend:
        raise job.document.error("the job is suspended; set it to false to run it", "spec.suspend")
    fleet = _fleet(job, manifests, ignored)
    process = read_container(job, manifests)
    ignored.job(str(job), spec, process.field)
    folder = Path.cwd() / (process.working_dir or "")
    if not folder.is_dir():
        raise job.document.error(f"{folder} is no folder on this machine", f"{process.field}.workingDir")
    source = job.document.source(f"{process.field}.command")
    return JobPlan(job.key[1], fleet, _job_sharding(job, manifests, fleet), process, folder, source)


def _fleet(job: Found[GTJob], manifests: Manifests, ignored: Ignored) -> FleetPlan:
    spec = job.object.spec
    if spec.cluster_template is not None:
        return _fleet_of(job, "spec.clusterTemplate.spec", spec.cluster_template.spec, manifests, ignored)
    assert spec.cluster_ref is not None, "the model has exactly one of the two"
    cluster = manifests.cluster(job, spec.cluster_ref.name)
    return _fleet_of(cluster, "spec", cluster.object.spec, manifests, ignored)


def _fleet_of(owner: Found[Any], field: str, spec: GTClusterSpec, manifests: Manifests, ignored: Ignored) -> FleetPlan:
    if spec.suspend:
        raise owner.document.error("the cluster is suspended; set it to false to run jobs", f"{field}.suspend")
    workers = sum(group.replicas for group in spec.worker_groups)
    if workers == 0:
        raise owner.document.error("the cluster has no worker; set replicas", f"{field}.workerGroups")
    ignored.cluster(str(owner), spec)
    sharding = None
    if spec.sharding is not None:
        ref = spec.sharding.config_map_ref
        sharding = _from_config_map(owner, f"{field}.sharding.configMapRef", ref, manifests, workers)
    vendors = frozenset(group.device.vendor for group in spec.worker_groups if group.replicas)
    return FleetPlan(f"{owner.kind} {'/'.join(owner.key)}", workers, vendors, sharding)


def _job_sharding(job: Found[GTJob], manifests: Manifests, fleet: FleetPlan) -> str | None:
    sharding = job.object.spec.sharding
    if sharding is None:
        return None
    if sharding.inline is not None:
        field = "spec.sharding.inline"
        parse_sharding(sharding.inline, source=f"{job.document.source(field)}: {field}", workers=fleet.workers)
        return sharding.inline
    assert sharding.config_map_ref is not None, "the model has exactly one of the two"
    field = "spec.sharding.configMapRef"
    return _from_config_map(job, field, sharding.config_map_ref, manifests, fleet.workers)


def _from_config_map(owner: Found[Any], field: str, ref: ConfigMapKeyRef, manifests: Manifests, workers: int) -> str:
    namespace = owner.key[0]
    text = manifests.config_value(ConfigRef(owner.document, field, namespace, ref.name, ref.key))
    assert text is not None, "the reference is not optional"
    found = manifests.config_maps[namespace, ref.name]
    try:
        parse_sharding(text, source=ref.key, workers=workers)
    except ShardingError as error:
        where = found.document.source(f"data.{ref.key}")
        raise ManifestError(str(error), source=where, field=str(found)) from None
    return text


def settings_for(plan: JobPlan, address: str, cluster_uid: str, sharding: Path | None) -> dict[str, str]:
    """GT's settings for the process of a job.

    Args:
        plan: The job.
        address: The fleet's dispatcher.
        cluster_uid: Identity of the fleet.
        sharding: The job's sharding file, or None.
    """
    given = {settings.ADDRESS: address, settings.CLUSTER_UID: cluster_uid}
    return given if sharding is None else {**given, settings.JOB_SHARDING: str(sharding)}
