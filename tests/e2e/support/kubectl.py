"""kubectl as the tests use it: what a person types, with a deadline on everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.localkube.shell import CommandError, run

Object = dict[str, Any]


class Kubectl:
    """Runs kubectl against one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 60.0) -> str:
        """Run any command and return its output.

        Raises:
            CommandError: kubectl failed or took longer than ``timeout`` seconds.
        """
        return run(*self._words(arguments), stdin=stdin, check=check, timeout=timeout)

    def apply(self, *objects: Object, namespace: str) -> None:
        """Apply objects given as Python values."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self("apply", "--namespace", namespace, "--filename", "-", stdin=manifest)

    def get(self, kind: str, name: str, namespace: str) -> Object:
        """Return one object.

        Raises:
            CommandError: There is no such object.
        """
        found: Object = json.loads(self("get", kind, name, "--namespace", namespace, "--output", "json"))
        return found

    def items(self, kinds: str, namespace: str, selector: str = "") -> list[Object]:
        """Return all objects of some kinds, in one namespace."""
        listing = self(
            "get", kinds, "--namespace", namespace, "--selector", selector, "--output", "json", "--ignore-not-found"
        )
        items: list[Object] = json.loads(listing or '{"items": []}')["items"]
        return items

    def wait(self, kind: str, name: str, namespace: str, what: str, timeout: float) -> None:
        """Run ``kubectl wait --for=WHAT``.

        Raises:
            CommandError: It did not come true within ``timeout`` seconds; the message shows the object's status.
        """
        try:
            self(
                "wait",
                f"{kind}/{name}",
                f"--namespace={namespace}",
                f"--for={what}",
                f"--timeout={timeout:.0f}s",
                timeout=timeout + 10,
            )
        except CommandError as error:
            now = self("get", kind, name, f"--namespace={namespace}", "--output=jsonpath={.status}", check=False)
            raise CommandError(f"{error}\nstatus of {kind}/{name} now: {now or 'none'}") from error

    def _words(self, arguments: tuple[str, ...]) -> list[str]:
        return ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]


def condition(item: Object, kind: str) -> Object:
    """Return a condition of an object, or an empty one if it isn't there."""
    conditions: list[Object] = item.get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == kind), {})
