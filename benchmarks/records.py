"""What a benchmark yields, and how it is shown."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Record:
    """One figure.

    Attributes:
        benchmark: What was measured.
        system: What it was measured on: `gt` or `eager`.
        metric: Name of the figure.
        median: Median over the rounds.
        low: Lowest of the rounds.
        high: Highest of the rounds.
        unit: Unit of the figure.
    """

    benchmark: str
    system: str
    metric: str
    median: float
    low: float
    high: float
    unit: str


def record(benchmark: str, system: str, metric: str, unit: str, rounds: Iterable[float]) -> Record:
    """Makes a record of several rounds."""
    figures = sorted(rounds)
    return Record(benchmark, system, metric, statistics.median(figures), figures[0], figures[-1], unit)


def alternate(rounds: int, **measures: Callable[[], float]) -> dict[str, list[float]]:
    """Measures several systems in turn, so that what disturbs the machine disturbs them all."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            figures[name].append(measure())
    return figures


def show(records: Iterable[Record]) -> None:
    """Prints a table."""
    table = Table("benchmark", "system", "metric", "median", "low", "high", "unit")
    for row in records:
        figures = (f"{figure:,.6g}" for figure in (row.median, row.low, row.high))
        table.add_row(row.benchmark, row.system, row.metric, *figures, row.unit)
    Console().print(table)


def write(records: Iterable[Record], path: Path) -> None:
    """Writes the records as a list of JSON objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in records], indent=1) + "\n")
