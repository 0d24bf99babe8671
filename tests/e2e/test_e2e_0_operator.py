"""The operator against a real API server: what it makes, and what becomes of it.

Pods need not run for this, so no image is needed. No other operator may serve the cluster.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.operator_process import Namespace, Object, OperatorProcess, give_rights, until
from tests.support.resource_cases import cluster, groups, job

pytestmark = pytest.mark.usefixtures("crds")

KINDS = "pods,deployments,replicasets,services,secrets,serviceaccounts,networkpolicies,poddisruptionbudgets,jobs"
WORKERS = "gt.dev/component=worker"

Start = Callable[[], OperatorProcess]


@pytest.fixture
def here(kubectl: Kubectl) -> Iterator[Namespace]:
    """kubectl in a namespace of the test's own."""
    name = f"gt-test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield Namespace(kubectl.kubeconfig, name)
    kubectl("delete", "namespace", name, "--timeout=60s")


@pytest.fixture
def start(here: Namespace, tmp_path: Path) -> Iterator[Start]:
    """Starts replicas of the operator, and ends them with the test."""
    kubeconfig = give_rights(here, tmp_path)
    started: list[OperatorProcess] = []

    def another() -> OperatorProcess:
        started.append(OperatorProcess(kubeconfig, here.namespace, tmp_path / f"operator-{len(started)}.log"))
        started[-1].wait_ready()
        return started[-1]

    yield another
    for process in started:
        process.kill()
        # What the chart's rights don't cover would show here.
        assert "cannot" not in process.log.read_text()


def indexes(here: Namespace) -> Counter[str]:
    pods = [pod for pod in here.items("pods", WORKERS) if "deletionTimestamp" not in pod["metadata"]]
    return Counter(pod["metadata"]["labels"]["gt.dev/worker-index"] for pod in pods)


def each_once(count: int) -> Counter[str]:
    return Counter(str(index) for index in range(count))


def test_cluster_is_made_healed_and_removed(here: Namespace, start: Start) -> None:
    start()
    here.apply(cluster(workerGroups=[{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}]))
    until(lambda: indexes(here) == each_once(3), 10)
    here.wait_reason("gtcluster", "c", "ImagePullBackOff")

    before = {pod["metadata"]["name"] for pod in here.items("pods", WORKERS)}
    here("delete", "pod", min(before), "--wait=false")
    here("delete", "service,networkpolicy", "c-dispatcher")
    until(lambda: indexes(here) == each_once(3), 10)
    until(lambda: len(here.items("services,networkpolicies")) == 3, 10)

    here.apply(groups({"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}))
    until(lambda: indexes(here) == each_once(2), 10)

    here("delete", "gtcluster", "c", "--timeout=10s")
    until(lambda: not [item for item in here.items(KINDS) if not is_ours(item)], 60)


def is_ours(item: Object) -> bool:
    """Whether an object belongs to the namespace or to the test, and not to a cluster."""
    return item["kind"] == "ServiceAccount" and item["metadata"]["name"] in ("default", "gt-operator")


def test_killed_operator_leaves_nothing_half_done(here: Namespace, start: Start) -> None:
    first = start()
    here.apply(groups({"name": "a", "replicas": 60}))
    until(lambda: sum(indexes(here).values()) >= 5, 20)
    first.kill()
    made = {pod["metadata"]["uid"] for pod in here.items("pods", WORKERS)}
    assert len(made) < 60
    # It takes over once the Lease of the other has ended.
    start()
    until(lambda: len(indexes(here)) == 60, 60)
    assert indexes(here) == each_once(60)
    assert made <= {pod["metadata"]["uid"] for pod in here.items("pods", WORKERS)}


def test_one_of_two_leads_and_the_other_takes_over(here: Namespace, start: Start) -> None:
    first = start()
    until(lambda: first.leads, 20)
    second = start()
    here.apply(cluster())
    until(lambda: indexes(here) == each_once(1), 10)
    assert not second.leads
    assert second.metric("gt_operator_reconciles_total") == 0
    assert first.stop() < 10
    assert until(lambda: second.leads, 20) < 10
    here.apply(cluster("d"))
    until(lambda: sum(indexes(here).values()) == 2, 10)


def test_idle_operator_calls_nobody_but_for_its_lease(here: Namespace, start: Start) -> None:
    operator = start()
    here.apply(cluster(suspend=True), cluster("d", suspend=True))
    for name in ("c", "d"):
        here.wait_reason("gtcluster", name, "Suspended")
    versions = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in here.items(KINDS)}
    reconciles = settled(operator)
    written = writes(operator)
    # Somebody else's label is nothing to react to with a write.
    here("label", "service", "c-dispatcher", "team=a")
    until(lambda: operator.metric("gt_operator_reconciles_total") > reconciles, 10)
    settled(operator)
    assert writes(operator) == written > 0
    changed = [
        item["metadata"]["name"]
        for item in here.items(KINDS)
        if versions[item["metadata"]["uid"]] != item["metadata"]["resourceVersion"]
    ]
    assert changed == ["c-dispatcher"]


def writes(operator: OperatorProcess) -> float:
    calls = "gt_operator_api_calls_total"
    return sum(operator.metric(calls, f'method="{method}"') for method in ("PATCH", "POST", "DELETE"))


def settled(operator: OperatorProcess) -> float:
    """Waits until a second passes without any reconciliation; returns how many there were."""
    seen: list[float] = []

    def is_still() -> bool:
        seen.append(operator.metric("gt_operator_reconciles_total"))
        return len(seen) > 10 and len(set(seen[-10:])) == 1

    until(is_still, 30)
    return seen[-1]


def test_quota_that_is_raised_is_noticed(here: Namespace, start: Start) -> None:
    start()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    here.apply(quota)
    until(lambda: "status" in here.get("resourcequota", "q"), 10)
    here.apply(cluster())
    assert "exceeded quota: q" in here.wait_reason("gtcluster", "c", "QuotaExceeded")
    here.apply({**quota, "spec": {"hard": {"pods": "9"}}})
    # The worker by the operator, and the dispatcher's pod by Kubernetes.
    assert until(lambda: len(here.items("pods", "gt.dev/cluster=c")) == 2, 30) < 10


def test_sharding_file_is_watched(here: Namespace, start: Start) -> None:
    start()
    sharding = {"configMapRef": {"name": "files"}}
    here.apply(cluster(sharding=sharding))
    assert "ConfigMap files" in here.wait_reason("gtcluster", "c", "ShardingNotFound")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}}
    here.apply({**config_map, "data": {"sharding.yaml": "signals: ["}})
    here.wait_reason("gtcluster", "c", "ShardingInvalid")
    assert not here.items("pods")
    here.apply({**config_map, "data": {"sharding.yaml": "version: 1"}})
    until(lambda: indexes(here) == each_once(1), 10)
    # It has started by now, so a wrong file changes nothing but the condition.
    here.apply({**config_map, "data": {"sharding.yaml": "signals: ["}})
    here("wait", "gtcluster/c", "--for=condition=ShardingValid=false", "--timeout=10s")
    assert indexes(here) == each_once(1)


def test_keys_are_kept_and_replaced_together(here: Namespace, start: Start) -> None:
    first = start()
    here.apply(cluster())
    until(lambda: indexes(here) == each_once(1), 10)
    keys = {item["metadata"]["name"]: item["data"] for item in here.items("secrets")}
    assert set(keys) == {"c-keys-client", "c-keys-dispatcher", "c-keys-worker"}
    first.stop()
    second = start()
    until(lambda: second.leads, 20)
    settled(second)
    assert {item["metadata"]["name"]: item["data"] for item in here.items("secrets")} == keys
    second.stop()
    here("delete", "secret", "c-keys-worker")
    (old,) = here.items("pods", WORKERS)
    start()
    until(lambda: len(here.items("secrets")) == 3, 20)
    renewed = {item["metadata"]["name"]: item["data"] for item in here.items("secrets")}
    assert all(renewed[name] != keys[name] for name in keys)
    until(lambda: old["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in here.items("pods", WORKERS)}, 30)


def test_job_waits_for_its_cluster_and_takes_it_along(here: Namespace, start: Start) -> None:
    start()
    command = {"spec": {"containers": [{"name": "client", "command": ["true"]}]}}
    here.apply(job("lost", template=command))
    assert "GTCluster shared" in here.wait_reason("gtjob", "lost", "ClusterNotFound")
    own = job("own", clusterTemplate={"spec": cluster()["spec"]}, template=command, sharding={"inline": "version: 1"})
    here.apply(own)
    here.wait_reason("gtjob", "own", "ImagePullBackOff")
    assert not here.items("jobs")
    here("delete", "gtjobs", "--all", "--timeout=10s")
    until(lambda: not here.items("gtclusters,pods,configmaps", "gt.dev/cluster"), 60)


def test_foreign_objects_are_left_alone(here: Namespace, start: Start) -> None:
    start()
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "c-dispatcher"}}
    here.apply({**head, "spec": {"ports": [{"port": 1}], "selector": {"app": "other"}}})
    here.apply(cluster())
    assert "Service c-dispatcher" in here.wait_reason("gtcluster", "c", "NameTaken")
    assert here.get("service", "c-dispatcher")["spec"]["selector"] == {"app": "other"}
