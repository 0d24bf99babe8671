"""What the API server last showed, by kind and cluster.

Watches feed it, and so do the answers to the operator's own writes.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from enum import StrEnum

from gt_operator.objects import Object, label_of, name_of, namespace_of, uid_of
from gt_protocol.resources.constants import CLUSTER_KIND, CLUSTER_LABEL, JOB_KIND

_REMEMBERED = 4096


class Kind(StrEnum):
    """Kinds of objects that are watched."""

    CLUSTER = CLUSTER_KIND
    JOB = JOB_KIND
    POD = "Pod"
    SERVICE = "Service"
    SERVICE_ACCOUNT = "ServiceAccount"
    DEPLOYMENT = "Deployment"
    BATCH_JOB = "Job"
    NETWORK_POLICY = "NetworkPolicy"
    DISRUPTION_BUDGET = "PodDisruptionBudget"

    @classmethod
    def of(cls, obj: Object) -> Kind | None:
        """Kind of an object; None if it is not watched."""
        return cls(obj["kind"]) if obj["kind"] in set(cls) else None


class Store:
    """Objects by kind, namespace and name.

    Answers and events of one object may arrive in any order; the newest version is kept, and what was deleted stays so.
    """

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[tuple[str, str], Object]] = {kind: {} for kind in Kind}
        self._of_cluster: dict[tuple[Kind, str, str], set[str]] = defaultdict(set)
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def put(self, kind: Kind, obj: Object) -> None:
        """Takes an object, unless a newer version is there or it is known to be deleted."""
        if uid_of(obj) in self._deleted:
            return
        place = (namespace_of(obj), name_of(obj))
        known = self._objects[kind].get(place)
        if known is not None and uid_of(known) == uid_of(obj) and _version(known) > _version(obj):
            return
        if known is not None:
            self._unlink(kind, known)
        self._objects[kind][place] = _without_managed_fields(obj)
        if cluster := label_of(obj, CLUSTER_LABEL):
            self._of_cluster[kind, place[0], cluster].add(place[1])

    def remove(self, kind: Kind, obj: Object) -> None:
        """Forgets an object that was deleted."""
        self._deleted[uid_of(obj)] = None
        while len(self._deleted) > _REMEMBERED:
            self._deleted.popitem(last=False)
        place = (namespace_of(obj), name_of(obj))
        known = self._objects[kind].get(place)
        if known is not None and uid_of(known) == uid_of(obj):
            self._unlink(kind, known)
            del self._objects[kind][place]

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Returns an object, or None if there is none."""
        return self._objects[kind].get((namespace, name))

    def of_cluster(self, kind: Kind, namespace: str, cluster: str) -> list[Object]:
        """Returns all objects that carry a cluster's label, by name."""
        names = self._of_cluster.get((kind, namespace, cluster), set())
        return [self._objects[kind][namespace, name] for name in sorted(names)]

    def all(self, kind: Kind) -> Iterator[Object]:
        """Returns all objects of a kind."""
        return iter(tuple(self._objects[kind].values()))

    def _unlink(self, kind: Kind, obj: Object) -> None:
        place = (kind, namespace_of(obj), label_of(obj, CLUSTER_LABEL))
        names = self._of_cluster.get(place)
        if names is not None:
            names.discard(name_of(obj))
            if not names:
                del self._of_cluster[place]


def _version(obj: Object) -> int:
    # Versions of one object are numbers that grow; the API promises it since Kubernetes 1.35, and kept it before.
    version = str(obj["metadata"].get("resourceVersion", ""))
    return int(version) if version.isdigit() else 0


def _without_managed_fields(obj: Object) -> Object:
    # They are half of an object's size, and nothing here reads them.
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}
