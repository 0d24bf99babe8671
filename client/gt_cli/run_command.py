"""`gt run`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from gt_cli.errors import Terminated
from gt_cli.local.manifests import read_manifests
from gt_cli.local.plan import make_plans
from gt_cli.local.runner import run_plans


def run_jobs(
    paths: Annotated[list[Path], typer.Argument(help="Manifest files, or folders of them.", show_default=False)],
    job: Annotated[list[str] | None, typer.Option("--job", "-j", help="Run only this GTJob; may be repeated.")] = None,
) -> None:
    """Run the GTJobs of manifests on this machine, as `kubectl apply -f` runs them on a cluster.

    A local fleet of the cluster's size is started on the devices that are there. The exit status is that of the first
    job that failed; 2 means that the manifests can't be run.
    """
    console = Console(stderr=True, soft_wrap=True)
    plans, ignored = make_plans(read_manifests(paths), job or ())
    for line in ignored.lines():
        console.print(line, markup=False, highlight=False)
    with _ended_by_signals():
        status = run_plans(plans, console)
    raise typer.Exit(status)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP unwind as Ctrl-C does, so that the fleet is stopped."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    # What nohup has told this process to ignore stays ignored.
    caught = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
