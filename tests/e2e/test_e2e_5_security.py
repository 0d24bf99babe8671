"""All pods of GT keep to the strictest of Kubernetes' security levels."""

from __future__ import annotations

import re

from tests.e2e.localkube.shell import CommandError
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.providers import Provider
from tests.e2e.support.release import Release

# What the tests' own mount of PyTorch breaks.
CAUSED_BY_THE_MOUNT = {"hostPath volumes", "restricted volume types"}


def violations(kubectl: Kubectl, namespace: str) -> set[str]:
    """Ask the API server, changing nothing, what existing pods break of the ``restricted`` level."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    options = ("--overwrite", "--dry-run=server", "--warnings-as-errors")
    try:
        kubectl("label", "namespace", namespace, label, *options)
    except CommandError as error:
        warnings = str(error)
    else:
        return set()
    # One line for the pods that break the same rules: "Warning: NAME (and 2 other pods): RULE, RULE".
    lines = re.findall(r"^Warning: (?!existing pods)\S+(?: \(and .*?\))?: (.+)$", warnings, re.MULTILINE)
    assert lines, warnings
    return {rule for line in lines for rule in line.split(", ")}


def test_pods_are_restricted(provider: Provider, release: Release, namespace: str, kubectl: Kubectl) -> None:
    allowed = CAUSED_BY_THE_MOUNT if provider.torch_folder is not None else set()
    for each in (release.namespace, namespace, "default"):
        assert kubectl.items("pods", each), f"no pod in {each} to look at"
        assert violations(kubectl, each) <= allowed
