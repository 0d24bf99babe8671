"""Runs jobs one after the other, each on the fleet that its cluster describes."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console

from gt_cli.local.plan import FleetPlan, JobPlan, settings_for
from gt_cli.local.process import Outcome, run_process
from gt_fleet import LocalFleet, PrivateDirectory


def run_plans(plans: Iterable[JobPlan], console: Console) -> int:
    """Runs jobs in order.

    A job that fails doesn't keep the next from running; a signal to this program does.

    Args:
        plans: The jobs.
        console: Where to tell what happens; the jobs' own output goes to standard output.

    Returns:
        The exit status of the first job that failed, else 0.

    Raises:
        FleetError: A fleet can't be started.
        ManifestError: This machine has no such program.
    """
    status = 0
    with _Fleets(console) as fleets:
        for plan in plans:
            fleet = fleets.get(plan.fleet)
            begun = time.monotonic()
            outcome = _run(plan, fleet)
            console.print(_summary(plan, fleet, outcome, time.monotonic() - begun), markup=False, highlight=False)
            if outcome.interrupted is not None:
                return outcome.status
            status = status or outcome.status
    return status


class _Fleets:
    """Keeps the fleet of the last job for the next one, if that has the same cluster."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._fleet: LocalFleet | None = None
        self._plan: FleetPlan | None = None

    def get(self, plan: FleetPlan) -> LocalFleet:
        if self._fleet is not None and self._plan == plan and self._fleet.ended() is None:
            return self._fleet
        self._stop()
        count = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
        with self._console.status(f"starting {count}"), PrivateDirectory() as files:
            sharding = None
            if plan.sharding is not None:
                sharding = files.path / "sharding.yaml"
                sharding.write_text(plan.sharding, "utf-8")
            device = "cpu" if plan.vendors == {"cpu"} else None
            self._fleet = LocalFleet.start(plan.workers, device=device, sharding=str(sharding) if sharding else None)
            self._plan = plan
        if device is None and self._fleet.devices[0] == "cpu":
            missing = ", ".join(sorted(plan.vendors - {"cpu"}))
            self._console.print(f"no {missing} device for each worker here: they run on the CPU", markup=False)
        return self._fleet

    def _stop(self) -> None:
        if self._fleet is not None:
            self._fleet.stop()
            self._fleet = None

    def __enter__(self) -> _Fleets:
        return self

    def __exit__(self, *details: object) -> None:
        self._stop()


def _run(plan: JobPlan, fleet: LocalFleet) -> Outcome:
    with PrivateDirectory() as files:
        sharding = None
        if plan.sharding is not None:
            sharding = files.path / "sharding.yaml"
            sharding.write_text(plan.sharding, "utf-8")
        command, env = plan.command(settings_for(plan, fleet.address, fleet.cluster_uid, sharding))
        return run_process(command, env, plan.folder)


def _summary(plan: JobPlan, fleet: LocalFleet, outcome: Outcome, seconds: float) -> str:
    how = "succeeded" if outcome.status == 0 else "interrupted" if outcome.interrupted is not None else "failed"
    count = len(fleet.devices)
    workers = f"{count} {fleet.devices[0].split(':')[0]} worker{'s' if count > 1 else ''}"
    return f"{plan.name}: {how} after {seconds:.1f} s on {workers}, exit status {outcome.status}"
