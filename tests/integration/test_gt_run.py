"""`gt run` is its job, seen from outside: output, exit status, signals; and whatever ends it, nothing is left.

The fleet is made of stand-ins, except in the test of the whole path.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gt_cli.local import process as process_module
from tests.support.stand_ins import ended, stand_in_environment

SHELL_JOB = """\
apiVersion: gt.dev/v1alpha1
kind: GTJob
metadata: {{name: {name}}}
spec:
  clusterTemplate: {{spec: {{workerGroups: [{{name: w, replicas: 2}}]}}}}
  sharding: {{inline: "a: {{shard: {{workers: [0, 1]}}}}"}}
  template: {{spec: {{containers: [{{name: client, command: [sh, -c, "{script}"]}}]}}}}
---
"""


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with stand-ins for the fleet, whose directory for temporary files must be empty in the end."""
    modules, temporary = tmp_path / "modules", tmp_path / "t"
    modules.mkdir()
    temporary.mkdir()
    yield {**os.environ, **stand_in_environment(modules), "TMPDIR": str(temporary), "XDG_RUNTIME_DIR": ""}
    assert list(temporary.iterdir()) == []


def command(folder: Path, *jobs: tuple[str, str], arguments: Sequence[str] = ()) -> list[str]:
    path = folder / "jobs.yaml"
    # Kubernetes reads $$ as $.
    path.write_text("".join(SHELL_JOB.format(name=name, script=script.replace("$", "$$")) for name, script in jobs))
    return [sys.executable, "-m", "gt_cli", "run", str(path), *arguments]


def run(words: list[str], env: dict[str, str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture
def busy(tmp_path: Path, env: dict[str, str]) -> Iterator[BusyRun]:
    """Starts jobs that have children, and checks afterwards that all their processes are gone."""
    with BusyRun(tmp_path, env) as started:
        yield started


class BusyRun:
    """One `gt run` with a job that has started processes."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = env
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, then: str, terminal: int | None = None) -> subprocess.Popen[bytes]:
        """Starts it, and waits until the job tells of its processes.

        Args:
            then: What the job's shell does afterwards.
            terminal: Its controlling terminal, or None for none.
        """
        script = f"sleep 60 & setsid sleep 60 & echo started; {then}"
        words = command(self._folder, ("busy", script))
        if terminal is not None:
            words = ["setsid", "--ctty", "--wait", *words]
        self.process = subprocess.Popen(words, env=self._env, stdin=terminal, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"started\n"
        self.tree = descendants(self.process.pid)
        # Guard, shell, two sleeps, dispatcher, two workers.
        assert len(self.tree) >= 7
        return self.process

    def __enter__(self) -> BusyRun:
        return self

    def __exit__(self, *details: object) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        left = [pid for pid in self.tree if not ended(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left


def descendants(root: int) -> list[int]:
    """All processes below one."""
    children = [int(pid) for task in Path(f"/proc/{root}/task").iterdir() for pid in _children(task)]
    return [pid for child in children for pid in (child, *descendants(child))]


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except FileNotFoundError:
        return []


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """What ran the tests may ignore SIGHUP, as nohup does; its children would inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 128 + 11), ("kill -KILL $$", 128 + 9)]
)
def test_output_and_exit_status_are_the_job_s(tmp_path: Path, env: dict[str, str], script: str, status: int) -> None:
    done = run(command(tmp_path, ("job", f"read word; echo out $word; echo err >&2; {script}")), env, input="hello\n")
    assert done.returncode == status
    assert done.stdout == "out hello\n"
    assert done.stderr.startswith("err\n")
    how = "failed" if status else "succeeded"
    assert done.stderr.splitlines()[-1].startswith(f"job: {how} after ")
    assert done.stderr.splitlines()[-1].endswith(f" s on 2 cpu workers, exit status {status}")


def test_jobs_run_in_order_and_the_first_failure_counts(tmp_path: Path, env: dict[str, str]) -> None:
    jobs = [("one", "echo one"), ("two", "echo two; exit 5"), ("three", "echo three; exit 6")]
    done = run(command(tmp_path, *jobs), env)
    assert (done.returncode, done.stdout) == (5, "one\ntwo\nthree\n")
    done = run(command(tmp_path, *jobs, arguments=["--job", "three"]), env)
    assert (done.returncode, done.stdout) == (6, "three\n")


def test_a_job_gets_the_settings_of_its_fleet(tmp_path: Path, env: dict[str, str]) -> None:
    done = run(command(tmp_path, ("job", "cat $GT_JOB_SHARDING; echo; echo $GT_ADDRESS; which python")), env)
    sharding, address, python = done.stdout.splitlines()
    assert sharding == "a: {shard: {workers: [0, 1]}}"
    assert address.startswith("ipc:///")
    assert Path(python).parent == Path(sys.executable).parent


def test_a_fleet_that_can_not_start_is_told_without_a_traceback(tmp_path: Path, env: dict[str, str]) -> None:
    done = run(command(tmp_path, ("job", "echo never")), {**env, "MOOD": "crash"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "gt: the local fleet can't start: worker-1 ended with status 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_job_leaves_behind_ends_with_it(busy: BusyRun) -> None:
    assert busy.start("sleep 1").wait(timeout=30) == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_reaches_the_job_and_ends_the_run(busy: BusyRun, number: signal.Signals, status: int) -> None:
    run = busy.start(f"trap 'echo got; exit 3' {number.name[3:]}; echo ready; wait")
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(number)
    assert run.wait(timeout=30) == status
    assert run.stdout.read() == b"got\n"


def test_a_job_that_does_not_end_is_killed(busy: BusyRun) -> None:
    run = busy.start("trap '' INT; echo ready; while true; do wait; done")
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=process_module.GRACE + 20) == 130


def test_a_second_signal_kills_at_once(busy: BusyRun) -> None:
    run = busy.start("trap 'echo got' INT; echo ready; while true; do wait; done")
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(signal.SIGINT)
    assert run.stdout.readline() == b"got\n"
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=process_module.GRACE - 1) == 130


def test_ctrl_c_on_a_terminal_reaches_the_job_once(busy: BusyRun) -> None:
    keyboard, terminal = pty.openpty()
    try:
        run = busy.start("trap 'echo got' INT; echo ready; wait; sleep 0.5", terminal)
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        os.write(keyboard, b"\x03")
        assert run.wait(timeout=30) == 130
        assert run.stdout.read() == b"got\n"
    finally:
        os.close(keyboard)
        os.close(terminal)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_fleet_starts_ends_it(
    tmp_path: Path, env: dict[str, str], number: signal.Signals, status: int
) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    words = command(tmp_path, ("job", "echo never"))
    with subprocess.Popen(
        words, env={**env, "MOOD": "never ready", "TOLD": str(told)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        dispatcher = int(told.read_text())
        run.send_signal(number)
        try:
            output, errors = run.communicate(timeout=30)
        finally:
            run.kill()
    assert (run.returncode, output) == (status, b"")
    assert b"Traceback" not in errors
    assert ended(dispatcher)


def test_nothing_survives_a_kill(busy: BusyRun, env: dict[str, str]) -> None:
    busy.start("wait").kill()
    assert all(ended(pid) for pid in busy.tree)
    # The directories of a killed run go at the next start.
    words = [sys.executable, "-c", "import gt_fleet; gt_fleet.PrivateDirectory().remove()"]
    subprocess.run(words, env=env, check=True)


WHOLE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: rules}
data: {sharding.yaml: "signals: {batch: {workers: [0, 1], place: {0: shard(0)}}}"}
---
apiVersion: gt.dev/v1alpha1
kind: GTJob
metadata: {name: sum}
spec:
  clusterRef: {name: pair}
  sharding: {configMapRef: {name: rules}}
  template: {spec: {containers: [{name: client, command: [python, sum.py]}]}}
---
apiVersion: gt.dev/v1alpha1
kind: GTCluster
metadata: {name: pair}
spec: {workerGroups: [{name: cpu, replicas: 2}]}
"""

PROGRAM = """\
import gt, torch
with gt.signal.context("batch"):
    x = torch.arange(10.0).to("fleet")
print((x * 2).sum().item())
"""


def test_the_whole_path_with_a_real_fleet(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text(WHOLE)
    (tmp_path / "sum.py").write_text(PROGRAM)
    words = [sys.executable, "-m", "gt_cli", "run", "manifests"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.stdout == "90.0\n", done.stderr
    assert done.returncode == 0
