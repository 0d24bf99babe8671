"""Watches of single objects, and what is asked about pods that wait silently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from gt_operator.errors import ApiRefused
from gt_operator.kube.named_watches import NamedWatches, Target
from gt_operator.objects import Key
from gt_operator.reconcile.hints import ASK_AGAIN, SILENT_AFTER, find_hint
from gt_operator.reconcile.namespaces import LEFT_ALONE_FOR, LeavingNamespaces
from tests.support.operator_objects import NOW, Object, design, waiting, worker

FILE = Target("ConfigMap", "ns", "files")
A, B = Key("GTCluster", "ns", "a"), Key("GTCluster", "ns", "b")


def config_map(version: int, name: str = "files") -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "data": {"version": str(version)}}


class ApiServer:
    """Lists and watches what a test puts into it."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)
        self.events: asyncio.Queue[tuple[str, Object] | Exception] = asyncio.Queue()
        self.lists = 0
        self.gets = 0
        self.watching = 0

    async def list(self, kind: str, namespace: str | None, *, fields: str = "") -> tuple[list[Object], str]:
        assert fields in ("metadata.name=files", "involvedObject.uid=uid-c-cpu-0")
        self.lists += 1
        return self.objects, "1"

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        self.gets += 1
        return next((each for each in self.objects if each["metadata"]["name"] == name), None)

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[tuple[str, Object]]:
        self.watching += 1
        try:
            while True:
                event = await self.events.get()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.watching -= 1


def run(scenario: Callable[[ApiServer, NamedWatches, list[Key]], Coroutine[Any, Any, None]]) -> None:
    async def with_watches() -> None:
        server, told = ApiServer(config_map(1)), []
        watches = NamedWatches(server, told.append)
        try:
            async with asyncio.timeout(10):
                await scenario(server, watches, told)
        finally:
            await watches.close()
        assert server.watching == 0

    asyncio.run(with_watches())


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(5000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("did not come true")


def test_all_who_are_interested_are_told_and_read_without_a_call() -> None:
    async def scenario(server: ApiServer, watches: NamedWatches, told: list[Key]) -> None:
        watches.set_interest(A, frozenset({FILE}))
        watches.set_interest(B, frozenset({FILE}))
        await until(lambda: sorted(told) == [A, B])
        assert server.lists == 1
        server.events.put_nowait(("MODIFIED", config_map(2)))
        await until(lambda: sorted(told) == [A, A, B, B])
        found = await watches.read(FILE)
        assert found == config_map(2)
        server.events.put_nowait(("DELETED", config_map(3)))
        await until(lambda: len(told) == 6)
        assert await watches.read(FILE) is None
        assert server.gets == 0

    run(scenario)


def test_bookmarks_tell_nobody() -> None:
    async def scenario(server: ApiServer, watches: NamedWatches, told: list[Key]) -> None:
        watches.set_interest(A, frozenset({FILE}))
        await until(lambda: told == [A])
        server.events.put_nowait(("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
        server.events.put_nowait(("MODIFIED", config_map(2)))
        await until(lambda: told == [A, A])

    run(scenario)


def test_watch_ends_with_the_last_interest() -> None:
    async def scenario(server: ApiServer, watches: NamedWatches, told: list[Key]) -> None:
        watches.set_interest(A, frozenset({FILE}))
        watches.set_interest(B, frozenset({FILE}))
        await until(lambda: server.watching == 1)
        watches.set_interest(A, frozenset())
        await asyncio.sleep(0.01)
        assert server.watching == 1
        watches.set_interest(B, frozenset())
        await until(lambda: server.watching == 0)
        assert watches.current(FILE) is None

    run(scenario)


def test_what_is_not_watched_yet_is_read_by_a_call() -> None:
    async def scenario(server: ApiServer, watches: NamedWatches, told: list[Key]) -> None:
        assert await watches.read(FILE) == config_map(1)
        assert server.gets == 1

    run(scenario)


def test_lost_watch_is_set_up_anew_and_tells_again() -> None:
    async def scenario(server: ApiServer, watches: NamedWatches, told: list[Key]) -> None:
        watches.set_interest(A, frozenset({FILE}))
        await until(lambda: told == [A])
        server.objects = [config_map(5)]
        server.events.put_nowait(ApiRefused(410, "Expired", "too old"))
        await until(lambda: told == [A, A])
        assert await watches.read(FILE) == config_map(5)

    run(scenario)


def silent_pod(age: float) -> Object:
    pod = worker(design().workers[0], age=age)
    pod["status"] = waiting("ContainerCreating")
    return pod


def event(reason: str, kind: str, at: str) -> Object:
    return {"reason": reason, "type": kind, "message": "m", "lastTimestamp": at, "firstTimestamp": at}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], None),
        ([event("Scheduled", "Normal", "1")], None),
        ([event("Pulling", "Normal", "1")], "PullingImage"),
        ([event("Pulling", "Normal", "2"), event("FailedMount", "Warning", "1")], "FailedMount"),
    ],
)
def test_node_is_asked_about_a_pod_that_waits_silently(events: list[Object], reason: str | None) -> None:
    found, again = asyncio.run(find_hint(ApiServer(*events), [silent_pod(SILENT_AFTER + 1)], NOW))
    assert (found.reason if found else None) == reason
    assert again == ASK_AGAIN


def test_nobody_is_asked_too_early_or_about_pods_that_say_why() -> None:
    server = ApiServer()
    assert asyncio.run(find_hint(server, [silent_pod(SILENT_AFTER - 2)], NOW)) == (None, 2.0)
    talking = silent_pod(60)
    talking["status"] = waiting("ErrImagePull")
    running = worker(design().workers[0])
    assert asyncio.run(find_hint(server, [talking, running], NOW)) == (None, None)
    assert server.lists == 0


def test_namespace_that_goes_is_left_alone_for_a_while() -> None:
    now = [100.0]
    leaving = LeavingNamespaces(lambda: now[0])
    assert leaving.rest("ns") == 0
    leaving.note("ns")
    now[0] += 4
    assert leaving.rest("ns") == LEFT_ALONE_FOR - 4
    assert leaving.rest("other") == 0
    now[0] += LEFT_ALONE_FOR
    assert leaving.rest("ns") == 0
