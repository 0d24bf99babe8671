"""`python -m benchmarks NAME... --json FILE`: measures, prints a table, writes the records."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import gt
from benchmarks import emit, fetch
from benchmarks.records import Record, show, write

BENCHMARKS = {"emit": emit.run, "fetch": fetch.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures GT beside plain PyTorch.")
    parser.add_argument("names", nargs="+", choices=sorted(BENCHMARKS), help="benchmarks to run")
    parser.add_argument("--json", type=Path, default=None, help="file to write the records to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gt.gpu_workers(1)
    records: list[Record] = []
    for name in options.names:
        records += BENCHMARKS[name]()
    show(records)
    if options.json is not None:
        write(records, options.json)


if __name__ == "__main__":
    main()
