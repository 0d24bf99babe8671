"""The cluster, the image and the installed chart, made once for all end-to-end tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.support import diagnostics, providers
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release

NAMESPACE = "gt-e2e"
CRDS = Path(__file__).parents[2] / "crds"

# Every wait in the tests has its own deadline; this one only ends what hangs, by an exception that still lets the
# fixtures remove the cluster.
TEST_TIMEOUT = 600.0

_KUBECTL = pytest.StashKey[Kubectl]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all tests of this folder."""
    item.add_marker(pytest.mark.e2e)
    item.add_marker(pytest.mark.timeout(TEST_TIMEOUT, method="signal"))


@pytest.fixture(scope="session")
def provider(pytestconfig: pytest.Config) -> Iterator[providers.Provider]:
    """A running cluster; removed at the end, also when the run is interrupted."""
    chosen = providers.choose()
    # A terminated run then ends like an interrupted one, through the fixtures.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        pytestconfig.stash[_KUBECTL] = Kubectl(chosen.start())
        yield chosen
    except providers.Unavailable as unavailable:
        if os.environ.get("GT_E2E_REQUIRED") == "1":
            pytest.fail(str(unavailable), pytrace=False)
        pytest.skip(str(unavailable))
    finally:
        # What fails from here on can't ask the cluster any more.
        if _KUBECTL in pytestconfig.stash:
            del pytestconfig.stash[_KUBECTL]
        chosen.stop()


@pytest.fixture(scope="session")
def kubectl(provider: providers.Provider, pytestconfig: pytest.Config) -> Kubectl:
    """kubectl as the cluster's administrator."""
    return pytestconfig.stash[_KUBECTL]


@pytest.fixture(scope="module")
def crds(kubectl: Kubectl) -> Iterator[None]:
    """GT's kinds without the chart, which brings its own later."""
    folder = f"--filename={CRDS}"
    if kubectl("get", folder, "--ignore-not-found", "--output=name"):
        pytest.fail("the cluster has GT already, and these tests would remove it: give one without", pytrace=False)
    kubectl("apply", "--server-side", folder)
    kubectl("wait", "--for=condition=Established", folder, "--timeout=20s")
    yield
    kubectl("delete", folder, "--timeout=60s")


@pytest.fixture(scope="session")
def release(provider: providers.Provider, kubectl: Kubectl) -> Release:
    """GT installed with helm. The tests of removal uninstall it, so nothing here does."""
    installed = Release(provider.helm, kubectl)
    installed.install(provider.load_image(), provider.torch_folder)
    return installed


@pytest.fixture(scope="session")
def namespace(release: Release, kubectl: Kubectl) -> str:
    """A namespace for the tests' own clusters and jobs."""
    kubectl("create", "namespace", NAMESPACE)
    return NAMESPACE


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the cluster to the report of a test that failed."""
    report = yield
    kubectl = item.config.stash.get(_KUBECTL, None)
    if report.failed and kubectl is not None:
        report.sections.append(("the cluster", diagnostics.describe(kubectl)))
    return report
