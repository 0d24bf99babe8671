"""How many small instructions a second a local fleet of one worker takes and executes."""

from __future__ import annotations

import time

import torch

from benchmarks.records import Record, alternate, record

ADDS = 20_000
ROUNDS = 5


def adds_per_second(device: str) -> float:
    """Adds 4x4 tensors one after the other, with gradients off, until the last value is there."""
    x = torch.zeros(4, 4, device=device)
    y = torch.ones(4, 4, device=device)
    x.sum().item()
    start = time.perf_counter()
    with torch.no_grad():
        for _ in range(ADDS):
            x = x + y
        last = x[0, 0].item()
    seconds = time.perf_counter() - start
    if last != ADDS:
        raise AssertionError(f"{ADDS} adds gave {last}")
    return ADDS / seconds


def run() -> list[Record]:
    """Measures the fleet beside plain eager."""
    adds_per_second("fleet")
    figures = alternate(ROUNDS, gt=lambda: adds_per_second("fleet"), eager=lambda: adds_per_second("cpu"))
    return [record("emit", system, "grad_off_ops_per_s", "1/s", rates) for system, rates in figures.items()]
