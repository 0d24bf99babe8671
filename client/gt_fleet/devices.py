"""Which devices a local fleet runs on, found without importing torch."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gt_fleet.errors import FleetError

_KINDS: Final = ("cpu", "cuda")


def choose_devices(workers: int, wanted: str | None, env: Mapping[str, str] = os.environ) -> list[str]:
    """The device of each worker.

    Args:
        workers: Number of workers.
        wanted: `cpu`, `cuda` (also for ROCm, as in PyTorch), or None for GPUs where there is one for each worker, and
            the CPU elsewhere. A mix would not do: the two have no collectives in common.
        env: Environment of the workers.

    Raises:
        FleetError: There is no such device, or not one for each worker.
    """
    if wanted is not None and wanted not in _KINDS:
        raise FleetError(f"{wanted!r} is no device of a local fleet: use cpu or cuda")
    if wanted == "cpu":
        return ["cpu"] * workers
    found = count_gpus(env)
    if found >= workers:
        return [f"cuda:{index}" for index in range(workers)]
    if wanted == "cuda":
        raise FleetError(f"{workers} workers need a GPU each, and {found} can be used here: ask for fewer, or for cpu")
    return ["cpu"] * workers


def count_gpus(env: Mapping[str, str] = os.environ, *, dev: Path = Path("/dev"), build: str | None = None) -> int:
    """Number of GPUs that this machine has, that `env` leaves visible, and that the installed torch can use.

    Args:
        env: Environment of the processes that will use them.
        dev: Where device files are.
        build: What torch was built for, `cuda`, `hip` or empty; None looks it up.
    """
    build = torch_build() if build is None else build
    if build == "cuda":
        present = sum(1 for file in dev.glob("nvidia*") if re.fullmatch(r"nvidia\d+", file.name))
        return _visible(present, env, ("CUDA_VISIBLE_DEVICES",))
    if build == "hip" and (dev / "kfd").exists():
        present = sum(1 for _ in (dev / "dri").glob("renderD*"))
        return _visible(present, env, ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"))
    return 0


def torch_build() -> str:
    """What the installed torch was built for: `cuda`, `hip`, or empty for the CPU alone or if there is no torch."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        version = Path(folder) / "version.py"
        if version.exists():
            built = re.findall(r"^(cuda|hip)\b[^=\n]*=\s*['\"]", version.read_text("utf-8"), re.MULTILINE)
            return built[0] if built else ""
    return ""


def _visible(present: int, env: Mapping[str, str], names: tuple[str, ...]) -> int:
    for name in names:
        if name in env:
            # As the drivers read it: an empty list or one that begins with -1 hides all.
            listed = [entry.strip() for entry in env[name].split(",") if entry.strip()]
            hidden = next((index for index, entry in enumerate(listed) if entry == "-1"), len(listed))
            return min(present, hidden)
    return present
