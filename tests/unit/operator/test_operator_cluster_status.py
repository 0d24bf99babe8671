"""The status of a GTCluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gt_operator.observe.blockers import Blocker
from gt_operator.observe.cluster_status import ClusterView, cluster_status
from gt_operator.observe.sharding import NO_SHARDING, Verdict, check_config_map
from gt_protocol.resources.base import ConfigMapKeyRef
from gt_protocol.resources.cluster import GTClusterStatus
from tests.support.operator_objects import NOW, Object, available, cluster, design, shown, waiting, worker

DESIGN = design()
WRONG = Verdict(False, "ShardingInvalid", "a.yaml:1:1: no")


def view(*ready: bool, **changes: Any) -> ClusterView:
    pods = tuple(worker(slot, ready=each) for slot, each in zip(DESIGN.workers, ready, strict=False))
    whole = ClusterView(
        size=2,
        hashes={slot.index: slot.hash for slot in DESIGN.workers},
        suspended=False,
        pods=pods,
        deployment=available(DESIGN.dispatcher),
        sharding=NO_SHARDING,
    )
    return replace(whole, **changes)


def status(seen: ClusterView, obj: Object | None = None) -> tuple[Object, dict[str, Object]]:
    result = cluster_status(obj or shown(cluster()), seen, NOW)
    GTClusterStatus.model_validate(result)
    return result, {condition["type"]: condition for condition in result["conditions"]}


def test_ready_means_that_all_workers_and_the_dispatcher_are() -> None:
    result, conditions = status(view(True, True))
    assert (result["ready"], result["readyWorkers"], result["workers"]) == ("2/2", 2, 2)
    assert conditions["Ready"]["status"] == "True"
    assert conditions["Progressing"]["status"] == "False"
    assert result["address"] == "tcp://c-dispatcher.ns.svc:7070"


_PENDING = DESIGN.dispatcher


@pytest.mark.parametrize(
    "seen",
    [view(True, False), view(True), view(True, True, deployment=None), view(True, True, deployment=_PENDING)],
)
def test_not_ready_while_a_part_is_missing(seen: ClusterView) -> None:
    result, conditions = status(seen)
    assert conditions["Ready"]["status"] == "False"
    assert result["reason"] == "Starting"
    assert conditions["Progressing"]["status"] == "True"


def test_workers_of_an_older_specification_do_not_count() -> None:
    pods = tuple(worker(slot, ready=True) for slot in design(image="old").workers)
    assert status(view(pods=pods))[0]["ready"] == "0/2"


def test_two_pods_of_one_worker_count_once() -> None:
    pods = tuple(worker(DESIGN.workers[0], name, ready=True) for name in ("a", "b"))
    assert status(view(pods=pods))[0]["ready"] == "1/2"


def test_reason_names_what_was_refused_first() -> None:
    result, conditions = status(view(refused=(Blocker("QuotaExceeded", "pod a"), Blocker("Other", ""))))
    assert result["reason"] == "QuotaExceeded"
    assert conditions["Ready"]["message"] == "pod a"


def test_refusal_of_what_is_not_needed_any_more_does_not_count() -> None:
    assert status(view(True, True, refused=(Blocker("QuotaExceeded", ""),)))[1]["Ready"]["status"] == "True"


def test_dispatcher_comes_before_workers_that_wait_for_it() -> None:
    workers = [worker(slot) for slot in DESIGN.workers]
    workers[0]["status"] = waiting("CreateContainerError")
    labels = {"gt.dev/component": "dispatcher"}
    dispatcher = {"metadata": {"name": "d", "labels": labels}, "status": waiting("ErrImagePull")}
    assert status(view(pods=(*workers, dispatcher)))[0]["reason"] == "ImagePullBackOff"
    assert status(view(pods=tuple(workers)))[0]["reason"] == "CreateContainerError"


def test_hint_comes_last() -> None:
    hint = Blocker("FailedMount", "pod a")
    assert status(view(hint=hint))[0]["reason"] == "FailedMount"
    assert status(view(hint=hint, refused=(Blocker("QuotaExceeded", ""),)))[0]["reason"] == "QuotaExceeded"


def test_wrong_file_keeps_a_cluster_from_starting_and_stops_none() -> None:
    result, conditions = status(view(sharding=WRONG))
    assert result["reason"] == "ShardingInvalid"
    assert conditions["ShardingValid"]["status"] == "False"
    _, conditions = status(view(True, True, sharding=WRONG))
    assert conditions["Ready"]["status"] == "True"
    assert conditions["ShardingValid"]["message"] == "a.yaml:1:1: no"


def test_degraded_is_what_was_ready_and_has_lost_a_part() -> None:
    was_ready = shown(cluster(), {"type": "Ready", "status": "True"})
    assert status(view(True, False), was_ready)[1]["Degraded"]["status"] == "True"
    still = shown(cluster(), {"type": "Ready", "status": "False"}, {"type": "Degraded", "status": "True"})
    assert status(view(True, False), still)[1]["Degraded"]["status"] == "True"
    assert status(view(True, True), still)[1]["Degraded"]["status"] == "False"
    assert status(view(True, False))[1]["Degraded"]["status"] == "False"


def test_cluster_that_is_being_changed_has_lost_nothing() -> None:
    was_ready = shown(cluster(), {"type": "Ready", "status": "True"}, observedGeneration=2)
    assert status(view(True, False), was_ready)[1]["Degraded"]["status"] == "False"


def test_suspended() -> None:
    was_ready = shown(cluster(), {"type": "Ready", "status": "True"})
    result, conditions = status(view(suspended=True, hashes={}, pods=()), was_ready)
    assert (result["ready"], result["reason"]) == ("0/2", "Suspended")
    kinds = ("Ready", "Progressing", "Degraded", "Suspended")
    assert [conditions[kind]["status"] for kind in kinds] == ["False", "False", "False", "True"]


def test_same_view_gives_the_same_status_later() -> None:
    first, _ = status(view(True, False))
    obj = shown(cluster())
    obj["status"] = first
    assert cluster_status(obj, view(True, False), NOW + timedelta(hours=1)) == first
    changed = cluster_status(obj, view(True, True), NOW + timedelta(hours=1))
    times = {condition["type"]: condition["lastTransitionTime"] for condition in changed["conditions"]}
    assert times["Ready"] == "2026-01-01T13:00:00Z"
    assert times["ShardingValid"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("config_map", "reason", "text"),
    [
        (None, "ShardingNotFound", "there is no ConfigMap files"),
        ({"data": {"b.yaml": ""}}, "ShardingNotFound", "has no key a.yaml"),
        ({"data": {"a.yaml": "version: 1\nsignals: [\n"}}, "ShardingInvalid", "ConfigMap files, a.yaml:"),
        ({"data": {"a.yaml": "version: 1\nmeshes: {m: {workers: [0, 9]}}\n"}}, "ShardingInvalid", "9"),
        ({"data": {"a.yaml": "version: 1\nmeshes: {m: {workers: [0, 1]}}\n"}}, "ShardingValid", ""),
    ],
)
def test_sharding_file_in_a_config_map(config_map: Object | None, reason: str, text: str) -> None:
    verdict = check_config_map(ConfigMapKeyRef(name="files", key="a.yaml"), config_map, 2)
    assert verdict.reason == reason
    assert verdict.valid == (reason == "ShardingValid")
    assert text in verdict.message
