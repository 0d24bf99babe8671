"""Watching single objects that users name, such as the ConfigMap of a sharding file.

The operator watches what it made by label, but these carry none of its labels. Watching all ConfigMaps of the cluster
would bring every change of them here, and keep a copy of each; so each that is referred to has a watch of its own, as
long as something refers to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from gt_operator.errors import KubeError
from gt_operator.kube.client import KubeClient
from gt_operator.objects import Key, Object, name_of
from gt_operator.queue import backoff

log: structlog.stdlib.BoundLogger = structlog.get_logger(component="operator")

_SECONDS = 300


@dataclass(frozen=True)
class Target:
    """What to watch.

    Attributes:
        kind: Kind of the objects.
        namespace: Their namespace.
        name: Name of a single object; empty for all.
    """

    kind: str
    namespace: str
    name: str = ""

    @property
    def fields(self) -> str:
        """The field selector for it."""
        return f"metadata.name={self.name}" if self.name else ""


@dataclass
class _Watch:
    task: asyncio.Task[None]
    interested: set[Key] = field(default_factory=set)
    objects: dict[str, Object] = field(default_factory=dict)
    current: bool = False


class NamedWatches:
    """Watches what somebody is interested in."""

    def __init__(self, client: KubeClient, changed: Callable[[Key], None]) -> None:
        """Sets up without any watch.

        Args:
            client: The API server.
            changed: Is called for each who is interested in what changed.
        """
        self._client = client
        self._changed = changed
        self._watches: dict[Target, _Watch] = {}
        self._targets: dict[Key, frozenset[Target]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def set_interest(self, key: Key, targets: frozenset[Target]) -> None:
        """Says all that a key is interested in, in place of what was said before."""
        for target in self._targets.pop(key, frozenset()) - targets:
            watch = self._watches[target]
            watch.interested.discard(key)
            if not watch.interested:
                self._end(target)
        if targets:
            self._targets[key] = targets
        for target in targets:
            if target not in self._watches:
                self._watches[target] = _Watch(asyncio.create_task(self._follow(target), name=f"watch {target}"))
            self._watches[target].interested.add(key)

    async def read(self, target: Target) -> Object | None:
        """Returns a single object as it is now, or None if there is none.

        Raises:
            KubeError: It is not being watched yet, and can't be read.
        """
        watch = self._watches.get(target)
        if watch is not None and watch.current:
            return watch.objects.get(target.name)
        return await self._client.get(target.kind, target.namespace, target.name)

    def current(self, target: Target) -> list[Object] | None:
        """Returns the objects of a target, by name; None if they are not being watched yet."""
        watch = self._watches.get(target)
        if watch is None or not watch.current:
            return None
        return [watch.objects[name] for name in sorted(watch.objects)]

    async def close(self) -> None:
        """Ends all watches."""
        for target in tuple(self._watches):
            self._end(target)
        self._targets.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _end(self, target: Target) -> None:
        task = self._watches.pop(target).task
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _follow(self, target: Target) -> None:
        failures = 0
        while True:
            try:
                version = await self._list(target)
                failures = 0
                while True:
                    version = await self._stream(target, version)
            except KubeError as error:
                # Also how a version ends that the server has forgotten.
                failures += 1
                log.info("a watch is set up anew", target=str(target), reason=str(error))
            self._watches[target].current = False
            await asyncio.sleep(backoff(failures, 0.5))

    async def _list(self, target: Target) -> str:
        items, version = await self._client.list(target.kind, target.namespace, fields=target.fields)
        watch = self._watches[target]
        objects = {name_of(item): item for item in items}
        changed = watch.objects != objects or not watch.current
        watch.objects, watch.current = objects, True
        if changed:
            self._tell(watch)
        return version

    async def _stream(self, target: Target, version: str) -> str:
        watch = self._watches[target]
        events = self._client.watch(
            target.kind, target.namespace, fields=target.fields, version=version, seconds=_SECONDS
        )
        async for what, obj in events:
            version = obj["metadata"]["resourceVersion"]
            if what == "BOOKMARK":
                continue
            if what == "DELETED":
                watch.objects.pop(name_of(obj), None)
            else:
                watch.objects[name_of(obj)] = obj
            self._tell(watch)
        return version

    def _tell(self, watch: _Watch) -> None:
        for key in watch.interested:
            self._changed(key)
