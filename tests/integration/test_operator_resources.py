"""The API server gives the same answer to every manifest as the models do."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.resource_cases import CASES, CHANGES, Case, Change, Object

CRDS = Path(__file__).resolve().parents[2] / "crds"
KUBECONFIG = os.environ.get("GT_TEST_KUBECONFIG")

pytestmark = pytest.mark.skipif(not KUBECONFIG, reason="GT_TEST_KUBECONFIG names no cluster")


def kubectl(*arguments: str, stdin: Object | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", f"--kubeconfig={KUBECONFIG}", *arguments],
        input=None if stdin is None else json.dumps(stdin),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    """A namespace for objects of the tests; the CRDs are up to date."""
    name = f"gt-test-{uuid.uuid4().hex[:8]}"
    applied = kubectl("apply", "--server-side", "--force-conflicts", f"--filename={CRDS}")
    assert applied.returncode == 0, applied.stderr
    waited = kubectl("wait", "--for=condition=Established", f"--filename={CRDS}", "--timeout=20s")
    assert waited.returncode == 0, waited.stderr
    created = kubectl("create", "namespace", name)
    assert created.returncode == 0, created.stderr
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def assert_answer(answer: subprocess.CompletedProcess[str], wrong: str | None) -> None:
    if wrong is None:
        assert answer.returncode == 0, answer.stderr
    else:
        assert answer.returncode != 0
        assert wrong in answer.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_manifest(namespace: str, case: Case) -> None:
    dry = ("--dry-run=server", "--validate=strict", f"--namespace={namespace}", "--filename=-")
    assert_answer(kubectl("create", *dry, stdin=case.doc), case.wrong)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_change(namespace: str, change: Change) -> None:
    where = (f"--namespace={namespace}", "--filename=-")
    created = kubectl("create", *where, stdin=change.old)
    assert created.returncode == 0, created.stderr
    try:
        assert_answer(kubectl("replace", "--dry-run=server", *where, stdin=change.new), change.wrong)
    finally:
        kubectl("delete", *where, stdin=change.old)
