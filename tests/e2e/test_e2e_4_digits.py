"""The README's example trains a model on the cluster, applied exactly as a person would."""

from __future__ import annotations

import re

from tests.e2e.localkube.waiting import wait_until
from tests.e2e.support.image import ROOT
from tests.e2e.support.kubectl import Kubectl, condition
from tests.e2e.support.release import Release

EXAMPLE = ROOT / "examples" / "digits" / "gtjob.yaml"
TRAINING_TIMEOUT = 240.0
LEAST_ACCURACY = 97.0


def test_example_trains_to_the_promised_accuracy(release: Release, kubectl: Kubectl) -> None:
    kubectl("apply", "--filename", str(EXAMPLE))

    def has_ended() -> bool:
        job = kubectl.get("gtjob", "digits", "default")
        return any(condition(job, end).get("status") == "True" for end in ("Succeeded", "Failed"))

    wait_until(has_ended, "the job ends", TRAINING_TIMEOUT, interval=1.0)
    assert condition(kubectl.get("gtjob", "digits", "default"), "Succeeded")["status"] == "True"

    log = kubectl("logs", "--selector=gt.dev/job=digits", "--namespace=default", "--tail=-1")
    accuracies = re.findall(r"accuracy\D+(\d+(?:\.\d+)?) ?%", log)
    assert accuracies, log
    assert float(accuracies[-1]) >= LEAST_ACCURACY
