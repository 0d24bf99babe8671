"""The digits example trains alike on plain PyTorch, on one worker and on four, and reaches its accuracy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STEPS = 50


@dataclass(frozen=True)
class Run:
    """What one training yields."""

    losses: list[float]
    accuracy: float


def _sharding() -> str:
    """The sharding file of the example's manifest."""
    documents = yaml.safe_load_all((ROOT / "examples/digits/gtjob.yaml").read_text())
    text = next(document for document in documents if document["kind"] == "ConfigMap")["data"]["sharding.yaml"]
    assert isinstance(text, str)
    return text


def _train(folder: Path, **settings: str) -> Run:
    losses = folder / f"losses-{'-'.join(settings.values()).replace('/', '_')}.json"
    env = {**os.environ, **settings, "LOSSES": str(losses), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "examples/digits/train.py"]
    output = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert output.returncode == 0, output.stdout + output.stderr
    match = re.search(r"accuracy ([\d.]+) %", output.stdout)
    assert match, output.stdout
    return Run(json.loads(losses.read_text()), float(match[1]))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _train(tmp_path_factory.mktemp("plain"), DEVICE="cpu")


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_losses_and_accuracy_agree_with_plain_pytorch(workers: int, plain: Run, tmp_path: Path) -> None:
    settings = {"DEVICE": "fleet", "GT_WORKERS": str(workers)}
    if workers > 1:
        config = tmp_path / "sharding.yaml"
        config.write_text(_sharding().replace("[0, 1, 2, 3]", str(list(range(workers)))))
        settings["GT_CONFIG"] = str(config)
    run = _train(tmp_path, **settings)
    assert run.losses[:STEPS] == pytest.approx(plain.losses[:STEPS], rel=1e-4)
    assert run.accuracy == pytest.approx(plain.accuracy, abs=0.5)
    assert run.accuracy >= 97
