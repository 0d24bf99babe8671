"""How long it takes to read a small tensor."""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks.records import Record, alternate, record

READS = 300
ROUNDS = 5


def percentile(device: str, share: int) -> float:
    """Reads fresh 4x4 tensors; returns a percentile of the seconds that one read takes."""
    x = torch.zeros(4, 4, device=device)
    seconds: list[float] = []
    with torch.no_grad():
        for number in range(1, READS + 1):
            x = x + 1
            start = time.perf_counter()
            value = x.cpu()
            seconds.append(time.perf_counter() - start)
            if value[0, 0] != number:
                raise AssertionError(f"read {value[0, 0]} where {number} is due")
    return statistics.quantiles(seconds, n=100)[share - 1]


def run() -> list[Record]:
    """Measures the fleet beside plain eager, where reading is a copy."""
    percentile("fleet", 50)
    records: list[Record] = []
    for share in (50, 99):
        figures = alternate(
            ROUNDS,
            gt=lambda share=share: percentile("fleet", share),
            eager=lambda share=share: percentile("cpu", share),
        )
        records += [record("fetch", system, f"p{share}_s", "s", rounds) for system, rounds in figures.items()]
    return records
