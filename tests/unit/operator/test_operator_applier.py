"""Objects are written when they differ, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from copy import deepcopy
from typing import Any

import pytest

from gt_operator.errors import NameTaken
from gt_operator.reconcile.applier import Applier
from gt_operator.store import Kind, Store
from tests.support.operator_objects import Object, design

DEPLOYMENT = design().dispatcher


class ApiServer:
    """Keeps objects, counts writes, and adds what a real one adds."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes = 0

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return deepcopy(self.objects.get(f"{kind}/{name}"))

    async def apply(self, body: Object) -> Object:
        self.writes += 1
        stored = deepcopy(body)
        stored["metadata"] |= {"uid": "u", "resourceVersion": str(self.writes)}
        stored["spec"]["progressDeadlineSeconds"] = 600
        self.objects[f"{body['kind']}/{body['metadata']['name']}"] = stored
        return deepcopy(stored)


def run(scenario: Callable[[ApiServer, Store, Applier], Coroutine[Any, Any, None]]) -> None:
    server, store = ApiServer(), Store()
    asyncio.run(scenario(server, store, Applier(server, store)))


def shown(store: Store) -> Object:
    found = store.get(Kind.DEPLOYMENT, "ns", "c-dispatcher")
    assert found is not None
    return deepcopy(found)


def test_second_time_nothing_is_written() -> None:
    async def scenario(server: ApiServer, store: Store, applier: Applier) -> None:
        await applier.ensure(DEPLOYMENT)
        await applier.ensure(DEPLOYMENT)
        assert server.writes == 1

    run(scenario)


def test_status_and_fields_of_others_cause_no_write() -> None:
    async def scenario(server: ApiServer, store: Store, applier: Applier) -> None:
        await applier.ensure(DEPLOYMENT)
        changed = shown(store)
        changed["status"] = {"availableReplicas": 1}
        changed["metadata"] |= {"resourceVersion": "9", "annotations": {"deployment.kubernetes.io/revision": "1"}}
        changed["metadata"]["labels"]["team"] = "a"
        store.put(Kind.DEPLOYMENT, changed)
        await applier.ensure(DEPLOYMENT)
        assert server.writes == 1

    run(scenario)


@pytest.mark.parametrize("path", [("spec", "replicas"), ("metadata", "labels", "gt.dev/cluster")])
def test_change_by_somebody_else_is_taken_back(path: tuple[str, ...]) -> None:
    async def scenario(server: ApiServer, store: Store, applier: Applier) -> None:
        await applier.ensure(DEPLOYMENT)
        changed = shown(store)
        node = changed
        for part in path[:-1]:
            node = node[part]
        node[path[-1]] = 7
        changed["metadata"]["resourceVersion"] = "9"
        store.put(Kind.DEPLOYMENT, changed)
        await applier.ensure(DEPLOYMENT)
        assert server.writes == 2

    run(scenario)


def test_new_specification_is_written() -> None:
    async def scenario(server: ApiServer, store: Store, applier: Applier) -> None:
        await applier.ensure(DEPLOYMENT)
        await applier.ensure(design(image="other").dispatcher)
        assert server.writes == 2

    run(scenario)


def test_object_of_somebody_else_is_left_alone() -> None:
    async def scenario(server: ApiServer, store: Store, applier: Applier) -> None:
        # It carries no label of GT, so no watch shows it.
        metadata = {"name": "c-dispatcher", "namespace": "ns", "uid": "x", "labels": {}}
        server.objects["Deployment/c-dispatcher"] = {"kind": "Deployment", "metadata": metadata, "spec": {}}
        with pytest.raises(NameTaken, match="Deployment c-dispatcher exists and was not made for this"):
            await applier.ensure(DEPLOYMENT)
        assert server.writes == 0

    run(scenario)
