"""`python -m gt_protocol.resources.crd FOLDER...`: writes the CustomResourceDefinitions into folders."""

from __future__ import annotations

import sys
from pathlib import Path

from gt_protocol.resources.crd import definitions, render


def main(arguments: list[str]) -> int:
    """Writes one file for each resource into each folder; returns the exit status."""
    if not arguments:
        print("usage: python -m gt_protocol.resources.crd FOLDER...", file=sys.stderr)
        return 2
    for folder in map(Path, arguments):
        folder.mkdir(parents=True, exist_ok=True)
        for plural, definition in definitions().items():
            (folder / f"{plural}.yaml").write_text(render(definition), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
