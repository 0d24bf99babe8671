"""The operators that an instruction may name: ATen overloads by schema name, from an allow-list.

The list stands in `operators.txt`, one overload a line, sorted, with what the dispatcher must know of each. Its digest
is part of the handshake, since instructions name operators by their position. `python -m gt_worker.operator_table`
writes the file from PyTorch's own schemas; nothing that opens files, runs code or reads memory by address is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final

import msgspec

TABLE_FILE: Final = "operators.txt"


class Operator(msgspec.Struct, frozen=True):
    """One allowed overload.

    Attributes:
        index: Position in the table.
        name: Schema name with overload, such as `aten::add.Tensor`.
        writes: Positions of the arguments that it writes to.
        random: Whether it draws random numbers.
        view: Whether its results share an argument's storage without writing to it.
        pointwise: Whether it works element by element, with broadcasting.
    """

    index: int
    name: str
    writes: tuple[int, ...]
    random: bool
    view: bool
    pointwise: bool


class OperatorTable:
    """All allowed overloads, in order."""

    def __init__(self, operators: tuple[Operator, ...], digest: str) -> None:
        self.operators = operators
        self.digest = digest
        self._by_name = {operator.name: operator for operator in operators}

    def __len__(self) -> int:
        """Number of operators."""
        return len(self.operators)

    def __getitem__(self, index: int) -> Operator:
        """The operator at a position."""
        return self.operators[index]

    def get(self, name: str) -> Operator | None:
        """The operator of a schema name, or None if it is not allowed."""
        return self._by_name.get(name)


def parse_table(text: str) -> OperatorTable:
    """Reads a table: `name [r][v][p][w<position>,...]`, one a line, `#` starts a comment."""
    operators: list[Operator] = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        flags = words[1:]
        writes = next((flag[1:] for flag in flags if flag.startswith("w")), "")
        operators.append(
            Operator(
                index=len(operators),
                name=words[0],
                writes=tuple(int(position) for position in writes.split(",") if position),
                random="r" in flags,
                view="v" in flags,
                pointwise="p" in flags,
            )
        )
    return OperatorTable(tuple(operators), hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def format_table(operators: Iterable[Operator]) -> str:
    """Writes the lines that `parse_table` reads."""
    lines = ["# Written by `python -m gt_worker.operator_table`: name, then r(andom) v(iew) p(ointwise) w(rites)."]
    for operator in sorted(operators, key=lambda operator: operator.name):
        flags = [flag for flag in ("r" * operator.random, "v" * operator.view, "p" * operator.pointwise) if flag]
        if operator.writes:
            flags.append("w" + ",".join(map(str, operator.writes)))
        lines.append(" ".join([operator.name, *flags]))
    return "\n".join(lines) + "\n"


@cache
def operator_table() -> OperatorTable:
    """The table of this release."""
    return parse_table(resources.files("gt_protocol").joinpath(TABLE_FILE).read_text("utf-8"))
