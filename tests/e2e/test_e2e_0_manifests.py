"""The API server gives the same answer to every manifest as the models do."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.support.kubectl import Kubectl
from tests.support.resource_cases import CASES, CHANGES, Case, Change, Object

Ask = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.usefixtures("crds")


@pytest.fixture(scope="module")
def ask(kubectl: Kubectl) -> Iterator[Ask]:
    """Runs kubectl in a namespace of the tests' own, and returns whatever comes of it."""
    name = f"gt-test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)

    def run(*arguments: str, stdin: Object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={name}", *arguments, "--filename=-"],
            input=json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=60,
        )

    yield run
    kubectl("delete", "namespace", name, "--timeout=60s")


def assert_answer(answer: subprocess.CompletedProcess[str], wrong: str | None) -> None:
    if wrong is None:
        assert answer.returncode == 0, answer.stderr
    else:
        assert answer.returncode != 0
        assert wrong in answer.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_manifest(ask: Ask, case: Case) -> None:
    assert_answer(ask("create", "--dry-run=server", "--validate=strict", stdin=case.doc), case.wrong)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_change(ask: Ask, change: Change) -> None:
    created = ask("create", stdin=change.old)
    assert created.returncode == 0, created.stderr
    try:
        assert_answer(ask("replace", "--dry-run=server", stdin=change.new), change.wrong)
    finally:
        ask("delete", stdin=change.old)
