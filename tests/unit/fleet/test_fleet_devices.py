"""Which devices a local fleet takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gt_fleet import devices
from gt_fleet.devices import choose_devices, count_gpus, torch_build
from gt_fleet.errors import FleetError
from gt_fleet.fleet import base_environment


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """Device files of a machine with three NVIDIA and two AMD GPUs."""
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "kfd"):
        (tmp_path / name).touch()
    (tmp_path / "dri").mkdir()
    for name in ("renderD128", "renderD129", "card0"):
        (tmp_path / "dri" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("build", "env", "count"),
    [
        ("cuda", {}, 3),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "2"}, 1),
        ("cuda", {"CUDA_VISIBLE_DEVICES": ""}, 0),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "0,-1,1"}, 1),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4"}, 3),
        ("hip", {}, 2),
        ("hip", {"HIP_VISIBLE_DEVICES": "1"}, 1),
        ("", {}, 0),
    ],
)
def test_gpus_are_counted_if_torch_can_use_them(dev: Path, build: str, env: dict[str, str], count: int) -> None:
    assert count_gpus(env, dev=dev, build=build) == count


def test_a_machine_without_gpus_has_none(tmp_path: Path) -> None:
    assert count_gpus({}, dev=tmp_path, build="cuda") == 0
    assert count_gpus({}, dev=tmp_path, build="hip") == 0


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "cuda"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n", "hip"),
        ("__version__ = '2.15.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n", ""),
    ],
)
def test_the_build_of_torch_is_read_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, build: str
) -> None:
    (tmp_path / "version.py").write_text(text)
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: spec if name == "torch" else None)
    assert torch_build() == build


def test_gpus_are_taken_only_if_there_is_one_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda env: 2)
    assert choose_devices(2, None) == ["cuda:0", "cuda:1"]
    assert choose_devices(3, None) == ["cpu"] * 3
    assert choose_devices(1, "cpu") == ["cpu"]
    with pytest.raises(FleetError, match="3 workers need a GPU each, and 2 can be used"):
        choose_devices(3, "cuda")
    with pytest.raises(FleetError, match="use cpu or cuda"):
        choose_devices(1, "tpu")


def test_parts_share_the_cores_and_see_no_setting_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    env = base_environment({"GT_KEYS": "/keys", "GT_LOG_LEVEL": "DEBUG", "HOME": "/home/me"}, 3)
    assert env == {"GT_LOG_LEVEL": "DEBUG", "GT_LOG_FORMAT": "console", "HOME": "/home/me", "OMP_NUM_THREADS": "2"}
    assert base_environment({"OMP_NUM_THREADS": "5"}, 16)["OMP_NUM_THREADS"] == "5"
    assert base_environment({}, 16)["OMP_NUM_THREADS"] == "1"
