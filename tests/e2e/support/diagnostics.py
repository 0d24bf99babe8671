"""What a person would look at first when a test on a cluster fails."""

from __future__ import annotations

import json

from tests.e2e.localkube.shell import CommandError

from .kubectl import Kubectl

# Never Secrets: what is printed here ends in public logs.
_KINDS = "gtclusters,gtjobs,deployments,jobs,pods,services,persistentvolumeclaims"
_LOG_LINES = 80
_SYSTEM_NAMESPACES = {"kube-system", "kube-public", "kube-node-lease"}


def describe(kubectl: Kubectl) -> str:
    """Return the state of all that GT made: objects, events and logs."""
    parts = {
        "nodes": _ask(kubectl, "get", "nodes", "--output=wide"),
        "objects": _ask(kubectl, "get", _KINDS, "--all-namespaces", "--output=wide"),
        "GT's objects": _ask(kubectl, "describe", "gtclusters,gtjobs", "--all-namespaces"),
        "events": _ask(
            kubectl,
            "get",
            "events",
            "--all-namespaces",
            "--sort-by=.lastTimestamp",
            "--field-selector=involvedObject.kind!=Node",
        )[-8000:],
        **_pods(kubectl),
    }
    return "\n\n".join(f"--- {title}\n{text.strip()}" for title, text in parts.items() if text.strip())


def _pods(kubectl: Kubectl) -> dict[str, str]:
    listing = _ask(kubectl, "get", "pods", "--all-namespaces", "--output=json")
    texts: dict[str, str] = {}
    for pod in json.loads(listing)["items"] if listing.startswith("{") else []:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if namespace in _SYSTEM_NAMESPACES:
            continue
        where = (f"--namespace={namespace}", name)
        if not _is_well(pod):
            texts[f"pod {namespace}/{name}"] = _ask(kubectl, "describe", "pod", *where)
        for options in ((), ("--previous",)):
            log = _ask(kubectl, "logs", *where, "--all-containers", f"--tail={_LOG_LINES}", *options)
            texts[f"log of {namespace}/{name} {' '.join(options)}"] = log
    return texts


def _ask(kubectl: Kubectl, *arguments: str) -> str:
    """Run a command whose failure is no reason to lose the other answers."""
    try:
        return kubectl(*arguments, check=False, timeout=15)
    except CommandError as error:
        return str(error)


def _is_well(pod: dict[str, dict[str, object]]) -> bool:
    return pod["status"].get("phase") in {"Running", "Succeeded"}
