"""`gt version`."""

from __future__ import annotations

import platform
from importlib import metadata

import typer

from gt_protocol import __version__
from gt_protocol.messages import PROTOCOL_VERSION


def show_version() -> None:
    """Show the versions of GT and of what it runs on."""
    typer.echo(f"gt {__version__} (protocol {PROTOCOL_VERSION})")
    typer.echo(f"torch {_version_of('torch')}")
    typer.echo(f"python {platform.python_version()}")


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "is not installed"
