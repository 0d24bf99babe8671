"""`gt sharding check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from gt_cli.errors import CommandError
from gt_protocol.placements import Placement, Shard
from gt_protocol.sharding import MeshSpec, SignalRule, parse_sharding

#: Columns of a line where no terminal limits them, so that each rule stays on one line.
WIDE: Final = 1000

sharding = typer.Typer(help="Work with sharding files.", no_args_is_help=True)


@sharding.callback()
def group() -> None:
    """Work with sharding files."""


@sharding.command()
def check(
    file: Annotated[Path, typer.Argument(help="The sharding file.", show_default=False)],
    workers: Annotated[int | None, typer.Option(min=1, help="Number of workers that there are.")] = None,
) -> None:
    """Check a sharding file, and show what it says of each signal.

    The exit status is 2 if something is wrong; the message names line, column and what to do.
    """
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise CommandError(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is no UTF-8 text: {error.reason}") from None
    config = parse_sharding(text, source=str(file), workers=workers)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    if not config.rules:
        console.print(f"{file} is right; it has no rule for any signal", markup=False, highlight=False)
        return
    table = Table("signal", "workers", "placement", "weights", "backward", "compile", "line", box=None, pad_edge=False)
    for rule in config.rules:
        table.add_row(*cells(rule))
    console.print(table, markup=False)
    count = "1 rule" if len(config.rules) == 1 else f"{len(config.rules)} rules"
    console.print(f"{file} is right: {count}", markup=False, highlight=False)


def cells(rule: SignalRule) -> tuple[str, ...]:
    """What a rule says, one text for each column of the table."""
    weights = rule.weights if isinstance(rule.weights, str) else " ".join(f"{part:g}" for part in rule.weights or ())
    return (
        rule.name,
        _workers(rule.mesh),
        _placement(rule),
        weights or "-",
        rule.backward or "-",
        "yes" if rule.compile else "-",
        str(rule.line),
    )


def _workers(mesh: MeshSpec | None) -> str:
    if mesh is None:
        return "-"
    if not mesh.workers:
        return "all"
    text = " ".join(map(str, mesh.workers))
    if len(mesh.shape) == 1:
        return text
    return f"{text} ({' x '.join(f'{name} {size}' for name, size in zip(mesh.dim_names, mesh.shape, strict=True))})"


def _placement(rule: SignalRule) -> str:
    if rule.mesh is None:
        return "-"
    if rule.placements is None:
        return "replicate"
    texts = [_text(placement) for placement in rule.placements]
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{name}: {text}" for name, text in zip(rule.mesh.dim_names, texts, strict=True))


def _text(placement: Placement) -> str:
    return f"shard({placement.axis})" if isinstance(placement, Shard) else "replicate"
