"""The `gt` command, also installed as `kubectl-gt`."""

from __future__ import annotations

import sys

import typer

from gt_cli.errors import Terminated
from gt_cli.run_command import run_jobs
from gt_cli.sharding_command import sharding
from gt_cli.version_command import show_version
from gt_protocol.errors import GTError

#: Exit status for what the user can put right: arguments, manifests, sharding files.
WRONG_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    help="One PyTorch device over many GPUs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run_jobs)
app.add_typer(sharding, name="sharding")
app.command("version")(show_version)


def run() -> None:
    """Runs the command line of this process, and ends with its exit status."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: list[str]) -> int:
    """Runs one command.

    Args:
        arguments: The words after the command's own name.

    Returns:
        The exit status: 2 for what the user can put right, 130 after Ctrl-C, 128 + number after another signal.
    """
    try:
        app(arguments, prog_name="gt")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except GTError as error:
        print(f"gt: {error}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated as signalled:
        return 128 + signalled.number
    return 0
