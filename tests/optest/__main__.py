"""Runs the pairs and writes what came of them."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gt
from tests.optest import checks
from tests.optest.pairs import Pair, pairs

#: Seconds that one read may take.
TIMEOUT = 60.0


def run(pair: Pair, check: Callable[[Pair], int]) -> dict[str, Any]:
    """Runs one check of one pair."""
    gt.debug.clear_waits()
    try:
        count = check(pair)
    except Exception as error:
        gt_lines = [line for line in traceback.format_exception(error) if "client/gt/" in line]
        return {
            "result": "fails",
            "error": type(error).__name__,
            "why": f"{error}"[:600],
            "sample": "; ".join(getattr(error, "__notes__", [])),
            "where": gt_lines[-1].strip()[:200] if gt_lines else "",
        }
    if not count:
        return {"result": "empty"}
    return {"result": "works", "samples": count}


def main() -> int:
    """Runs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.optest", description=__doc__)
    parser.add_argument("--op", action="append", default=[], help="only operators whose names begin so")
    parser.add_argument("--check", action="append", default=[], help="forward, backward, inplace, out, errors")
    parser.add_argument("--part", default="0/1", help="only the pairs with this remainder, such as 0/2")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    remainder, parts = map(int, options.part.split("/"))
    wanted = options.check or ["forward", "backward", "inplace", "out", "errors"]
    gt.set_timeout(TIMEOUT)
    records: list[dict[str, Any]] = []
    totals: Counter[tuple[str, str]] = Counter()
    for number, pair in enumerate(pairs()):
        if number % parts != remainder or not pair.name.startswith(tuple(options.op or [""])):
            continue
        for name, check in applicable(pair, wanted):
            record = {"op": pair.name, "dtype": str(pair.dtype).removeprefix("torch."), "check": name}
            record |= run(pair, check)
            records.append(record)
            totals[name, record["result"]] += 1
            if record["result"] == "fails":
                print(pair.id, name, record["error"], record["why"].split("\n")[0][:200], flush=True)
    for (name, result), count in sorted(totals.items()):
        print(f"{name:10} {result:8} {count}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(records, indent=1), "utf-8")
    return 0


def applicable(pair: Pair, wanted: list[str]) -> list[tuple[str, Callable[[Pair], int]]]:
    """The checks that a pair has."""
    found: list[tuple[str, Callable[[Pair], int]]] = [("forward", checks.check_forward)]
    if pair.differentiable:
        found.append(("backward", checks.check_backward))
    inplace = pair.info.get_inplace()
    if inplace is not None:
        found.append(("inplace", lambda pair: checks.check_variant(pair, inplace)))
    if pair.info.supports_out:
        found.append(("out", checks.check_out))
    if pair.dtype is next(iter(checks_dtype(pair)), None):
        found.append(("errors", checks.check_errors))
    return [(name, check) for name, check in found if name in wanted]


def checks_dtype(pair: Pair) -> list[Any]:
    """The element types that errors are compared for: the first one only, since they don't depend on it."""
    from tests.optest.pairs import DTYPES

    supported = pair.info.supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if dtype in supported]


if __name__ == "__main__":
    sys.exit(main())
