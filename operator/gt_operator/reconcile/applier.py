"""Making objects as they should be, without a write where nothing is to be changed."""

from __future__ import annotations

from collections import defaultdict

from gt_operator.errors import NameTaken
from gt_operator.kube.client import KubeClient
from gt_operator.objects import Object, digest, is_going, name_of, namespace_of, owner_uid
from gt_operator.store import Kind, Store

_COMPARED = ("spec", "data", "automountServiceAccountToken")


class Applier:
    """Applies objects, and remembers what they looked like afterwards.

    It writes again only if what should be there has changed, or what it asked for looks different from how it did after
    the last write. So it never fights with who changes other fields.
    """

    def __init__(self, client: KubeClient, store: Store) -> None:
        self._client = client
        self._store = store
        # By owner, so that all of it can be forgotten with the owner.
        self._applied: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)

    async def ensure(self, body: Object) -> Object:
        """Makes an object as given; returns it as it is.

        Raises:
            NameTaken: An object of this name belongs to somebody else.
            KubeError: The call failed.
        """
        owner = owner_uid(body)
        place = f"{body['kind']}/{name_of(body)}"
        live = await self._find(body)
        if live is not None:
            _check_owner(live, owner)
            if self._applied[owner].get(place) == (digest(body), _appearance(live, body)):
                return live
        result = await self._client.apply(body)
        kind = Kind.of(body)
        if kind is not None:
            self._store.put(kind, result)
        self._applied[owner][place] = (digest(body), _appearance(result, body))
        return result

    def forget(self, owner: str) -> None:
        """Forgets everything about an owner that is gone."""
        self._applied.pop(owner, None)

    async def _find(self, body: Object) -> Object | None:
        kind, namespace, name = Kind.of(body), namespace_of(body), name_of(body)
        known = None if kind is None else self._store.get(kind, namespace, name)
        if known is not None:
            return known
        # Watches show only what carries GT's labels.
        return await self._client.get(body["kind"], namespace, name)


def _check_owner(live: Object, owner: str) -> None:
    if owner_uid(live) != owner:
        what = f"{live.get('kind', 'object')} {name_of(live)}"
        state = "is being deleted" if is_going(live) else "exists and was not made for this; rename or delete one"
        raise NameTaken(f"{what} {state}")


def _appearance(live: Object, body: Object) -> str:
    """Digest of those parts of an object that GT asked for, and of all of its specification."""
    shown = {name: live.get(name) for name in _COMPARED}
    for name in ("labels", "annotations"):
        asked = body["metadata"].get(name) or {}
        there = live["metadata"].get(name) or {}
        shown[name] = {key: there.get(key) for key in asked}
    return digest(shown)
