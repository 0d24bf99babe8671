"""The command line: exit statuses and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from gt_cli.main import call
from gt_protocol import __version__

FILE = """\
meshes:
  grid: {workers: [0, 1, 2, 3], shape: {dp: 2, tp: 2}}
signals:
  batch:   {mesh: grid, place: {dp: shard(0)}}
  encoder: {workers: [0, 1], backward: encoder_grad, compile: true}
  big:     {workers: [0, 1], place: {0: shard(-1)}, weights: [3, 1.5]}
  odd:     {backward: b}
"""


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_a_sharding_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(FILE)
    assert call(["sharding", "check", str(path), "--workers", "4"]) == 0
    _, *table, verdict = rows(capsys.readouterr().out)
    assert table == [
        ["batch", "0 1 2 3 (dp 2 x tp 2)", "dp: shard(0), tp: replicate", "-", "-", "-", "4"],
        ["encoder", "0 1", "replicate", "-", "encoder_grad", "yes", "5"],
        ["big", "0 1", "shard(-1)", "3 1.5", "-", "-", "6"],
        ["odd", "-", "-", "-", "b", "-", "7"],
    ]
    assert verdict == [f"{path} is right: 4 rules"]


def test_a_file_of_the_bare_form_may_mean_all_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("a: {shard: {axis: 1}}\n")
    assert call(["sharding", "check", str(path)]) == 0
    assert rows(capsys.readouterr().out)[1][:3] == ["a", "all", "shard(1)"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sharding", "check", "s.yaml", "--workers", "2"], "gt: s.yaml:2:26: worker 2 isn't there"),
        (["sharding", "check", "nothing.yaml"], "gt: nothing.yaml can't be read: No such file"),
        (["sharding", "check"], "Missing argument"),
        (["sharding", "check", "s.yaml", "--workers", "0"], "--workers"),
        (["run", "nothing.yaml"], "gt: nothing.yaml: can't be read"),
        (["run", "s.yaml"], "gt: s.yaml:1: kind: is required"),
        (["fly"], "No such command"),
    ],
)
def test_what_is_wrong_ends_with_status_2_and_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(FILE)
    assert call(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_versions_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"gt {__version__} (protocol ")
