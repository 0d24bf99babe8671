"""What is made and deleted for a cluster."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gt_operator.observe.cluster_plan import REPLACE_AFTER, ClusterPlan, decide_cluster
from tests.support.operator_objects import NOW, Object, design, worker

DESIGN = design(workerGroups=[{"name": "a", "replicas": 3}])


def decide(*pods: Object, held: bool = False, **spec: Any) -> ClusterPlan:
    return decide_cluster(design(**spec) if spec else DESIGN, pods, held, NOW)


def created(plan: ClusterPlan) -> list[int]:
    return [slot.index for slot in plan.create]


def deleted(plan: ClusterPlan) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in plan.delete)


def slots() -> list[Object]:
    return [worker(slot) for slot in DESIGN.workers]


def test_new_cluster_gets_everything() -> None:
    plan = decide()
    assert plan.surroundings == DESIGN.surroundings
    assert plan.dispatcher == DESIGN.dispatcher
    assert created(plan) == [0, 1, 2]


def test_complete_cluster_is_left_alone() -> None:
    plan = decide(*slots())
    assert (plan.create, plan.delete, plan.check_again) == ((), (), None)


def test_held_cluster_gets_no_pod_and_loses_none() -> None:
    plan = decide(worker(DESIGN.workers[0]), held=True)
    assert plan.dispatcher is None
    assert (plan.create, plan.delete) == ((), ())
    assert plan.surroundings == DESIGN.surroundings


def test_pod_that_goes_is_replaced_without_waiting_for_its_end() -> None:
    pods = slots()
    pods[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plan = decide(*pods)
    assert created(plan) == [1]
    assert deleted(plan) == []


def test_pod_of_an_older_specification_is_replaced() -> None:
    old = worker(design(image="old").workers[0])
    plan = decide(old, *slots()[1:])
    assert created(plan) == [0]
    assert deleted(plan) == ["c-cpu-0"]


def test_what_others_add_to_a_pod_replaces_nothing() -> None:
    pods = slots()
    pods[0]["metadata"]["labels"]["injected"] = "true"
    pods[0]["spec"]["containers"].append({"name": "sidecar"})
    assert deleted(decide(*pods)) == []


def test_smaller_cluster_loses_the_last_workers() -> None:
    pods = [worker(slot) for slot in design(workerGroups=[{"name": "cpu", "replicas": 3}]).workers]
    plan = decide(*pods, workerGroups=[{"name": "cpu", "replicas": 1}])
    assert deleted(plan) == ["c-cpu-1", "c-cpu-2"]
    assert created(plan) == []


def test_suspended_cluster_loses_all() -> None:
    pods = [worker(slot) for slot in design().workers]
    plan = decide_cluster(design(suspend=True), pods, False, NOW)
    assert len(plan.delete) == 2
    assert plan.dispatcher is not None
    assert plan.dispatcher["spec"]["replicas"] == 0


def test_of_two_pods_for_one_worker_the_ready_one_stays() -> None:
    slot = DESIGN.workers[0]
    plan = decide(worker(slot, "new"), worker(slot, "old", ready=True), *slots()[1:])
    assert deleted(plan) == ["c-a-new"]
    assert created(plan) == []


def test_failed_pod_is_replaced_but_not_in_a_tight_loop() -> None:
    young = worker(DESIGN.workers[0], phase="Failed", age=4)
    plan = decide(young, *slots()[1:])
    assert (created(plan), deleted(plan)) == ([], [])
    assert plan.check_again == REPLACE_AFTER - 4
    old = worker(DESIGN.workers[0], phase="Failed", age=REPLACE_AFTER)
    plan = decide(old, *slots()[1:])
    assert (created(plan), deleted(plan)) == ([0], ["c-a-0"])


def test_pod_without_a_number_is_deleted() -> None:
    pod = worker(DESIGN.workers[0], "odd")
    pod["metadata"]["labels"]["gt.dev/worker-index"] = "first"
    assert deleted(decide(pod, *slots())) == ["c-a-odd"]


_WIDE = [{"name": "cpu", "replicas": 5}]
_IMAGES = {"now": design(workerGroups=_WIDE), "old": design(image="old", workerGroups=_WIDE)}
_phases = st.sampled_from(["Running", "Failed"])
_found = st.tuples(st.integers(0, 4), st.sampled_from(sorted(_IMAGES)), st.booleans(), _phases)
_pods = st.lists(_found, max_size=8)


@settings(deadline=None)
@given(_pods, st.integers(0, 3))
def test_carried_out_plan_leads_to_exactly_what_is_asked_for(found: list[tuple[Any, ...]], size: int) -> None:
    pods = [
        worker(_IMAGES[version].workers[index], f"{number}", ready=ready, phase=phase)
        for number, (index, version, ready, phase) in enumerate(found)
    ]
    target = design(workerGroups=[{"name": "cpu", "replicas": size}])
    plan = decide_cluster(target, pods, False, NOW)
    gone = {pod["metadata"]["uid"] for pod in plan.delete}
    assert len(gone) == len(plan.delete)
    left = [pod for pod in pods if pod["metadata"]["uid"] not in gone]
    left += [worker(slot, f"new-{slot.index}") for slot in plan.create]
    indexes = sorted(int(pod["metadata"]["labels"]["gt.dev/worker-index"]) for pod in left)
    assert indexes == list(range(size))
    again = decide_cluster(target, left, False, NOW)
    assert (again.create, again.delete) == ((), ())
