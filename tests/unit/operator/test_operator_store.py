"""What was last seen, whatever the order in which answers and events arrive."""

from __future__ import annotations

import itertools

from gt_operator.store import Kind, Store
from tests.support.operator_objects import Object


def pod(version: int, uid: str = "u", cluster: str = "c", name: str = "p") -> Object:
    labels = {"gt.dev/cluster": cluster} if cluster else {}
    metadata = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"metadata": {**metadata, "managedFields": [{}]}, "version": version}


def version_of(store: Store) -> int | None:
    found = store.get(Kind.POD, "ns", "p")
    return None if found is None else int(found["version"])


def test_newest_version_stays_in_any_order() -> None:
    for order in itertools.permutations([8, 9, 10]):
        store = Store()
        for version in order:
            store.put(Kind.POD, pod(version))
        assert version_of(store) == 10


def test_deleted_object_does_not_come_back() -> None:
    store = Store()
    store.put(Kind.POD, pod(1))
    store.remove(Kind.POD, pod(2))
    store.put(Kind.POD, pod(1))
    assert version_of(store) is None
    store.put(Kind.POD, pod(3, uid="another"))
    assert version_of(store) == 3


def test_late_deletion_of_a_predecessor_removes_nothing() -> None:
    store = Store()
    store.put(Kind.POD, pod(5, uid="new"))
    store.remove(Kind.POD, pod(4, uid="old"))
    assert version_of(store) == 5


def test_objects_are_found_by_cluster() -> None:
    store = Store()
    for name in ("b", "a"):
        store.put(Kind.POD, pod(1, uid=name, name=name))
    store.put(Kind.POD, pod(1, uid="x", name="x", cluster="other"))
    assert [each["metadata"]["name"] for each in store.of_cluster(Kind.POD, "ns", "c")] == ["a", "b"]
    store.put(Kind.POD, pod(2, uid="a", name="a", cluster="other"))
    store.remove(Kind.POD, pod(1, uid="b", name="b"))
    assert store.of_cluster(Kind.POD, "ns", "c") == []


def test_managed_fields_are_not_kept() -> None:
    store = Store()
    store.put(Kind.POD, pod(1))
    found = store.get(Kind.POD, "ns", "p")
    assert found is not None
    assert "managedFields" not in found["metadata"]
