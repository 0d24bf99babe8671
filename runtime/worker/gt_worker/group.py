"""Groups of workers that run collectives together, and how a member without a value keeps the others from hanging.

A group's collectives have the same order on each member, since the dispatcher alone orders programs. Nothing but the
data itself is exchanged while all goes well. When a member has no value to give:

1. It does not begin the collective, whose sizes it may not even know. It writes an *alarm* with the failure into the
   group's store (the first member's), under the group's present *generation*.
2. The others, who wait for its data, look for an alarm every `LOOK` seconds, find it, and take over the failure. No
   member can have finished a collective that needs the missing data.
3. Before the next collective, all members meet in the store and connect anew, as the next generation. They tell each
   other how many collectives they are past; whoever is behind (a broadcast may end on some members only) counts the
   missing ones as failed. Only then are the old connections closed, so that closing them disturbs nobody.

A member that dies closes its connections, which ends the collectives of its neighbours at once; their alarm wakes the
rest. The group is broken then: each further collective fails immediately, until the dispatcher dissolves the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from torch._C._distributed_c10d import PrefixStore, Store, Work

from gt_protocol.failure import Failure, FailureKind
from gt_protocol.programs import FormGroup
from gt_worker.devices import Backend, Device
from gt_worker.errors import PeerLost, Poisoned
from gt_worker.rendezvous import Stores, first_line

#: How often a waiting member looks for an alarm, and lets the service do its chores, in seconds.
LOOK: Final = 0.01
#: The first look for members that are to meet comes sooner, as they are mostly about to come.
FIRST_LOOK: Final = 0.001


class Alarm(msgspec.Struct, frozen=True):
    """What a member tells the others instead of sending its data.

    Attributes:
        failure: Why.
        broken: Whether the group is of no more use.
    """

    failure: Failure
    broken: bool


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Alarm)


class Group:
    """This worker's membership of one group.

    Args:
        order: The group's number and members.
        index: Index of this worker, which is one of them.
        device: Its device.
        stores: Stores to meet at; the first member's is used.
        timeout: Seconds after which a collective is given up.
        chore: Called with the group's number now and then while a collective waits. May take the seconds that it is
            given; raises `PeerLost` to end the wait.
    """

    def __init__(
        self,
        order: FormGroup,
        index: int,
        device: Device,
        stores: Stores,
        timeout: float,
        chore: Callable[[int, float], None],
    ) -> None:
        self.number = order.group
        self.members = tuple(member.worker for member in order.members)
        self.rank = self.members.index(index)
        self.size = len(self.members)
        self._device = device
        self._stores = stores
        self.address = order.members[0].store
        self._root: Store | None = None
        self._timeout = timeout
        self._chore = chore
        self._backend: Backend | None = None
        self._generation = -1
        self._stale = True
        self._started = 0
        self._lost_up_to = 0
        self._failure: Failure | None = None
        self._broken = False

    def call(self, begin: Callable[[Backend], Work]) -> None:
        """Runs one collective, and waits until it has ended.

        Args:
            begin: Begins it.

        Raises:
            Poisoned: A member has no value to give.
            PeerLost: A member has gone, or does not answer in time; also at each later call.
            RuntimeError: It can't begin.
        """
        backend = self._enter()
        try:
            work = begin(backend)
        except RuntimeError as error:
            self._raise_alarm(Failure(FailureKind.OPERATOR, first_line(error), worker=self.members[self.rank]))
            raise
        end = time.monotonic() + self._timeout
        while not self._ended(work):
            self._look(end)

    def refuse(self, failure: Failure) -> None:
        """Takes part in one collective without a value: the other members take over the failure.

        Raises:
            Poisoned: The collective has failed for others already.
            PeerLost: A member has gone, or does not answer in time; also at each later call.
        """
        self._enter()
        self._raise_alarm(failure)

    def close(self) -> None:
        """Leaves the group; the first member clears what the group kept in its store."""
        self._drop_backend()
        self._forget(f"{self.number}/")

    def _enter(self) -> Backend:
        """Counts the collective that begins, and connects if need be."""
        self._started += 1
        if self._broken:
            assert self._failure is not None
            raise PeerLost(self._failure.message)
        if self._stale:
            self._connect()
        if self._started <= self._lost_up_to:
            assert self._failure is not None
            raise Poisoned(self._failure)
        assert self._backend is not None
        return self._backend

    def _ended(self, work: Work) -> bool:
        try:
            return self._device.wait(work, LOOK)
        except RuntimeError as error:
            raise self._break(first_line(error)) from None

    def _look(self, end: float) -> None:
        """Looks for reasons to stop waiting for the data of others."""
        alarm = self._alarm()
        if alarm is not None:
            self._failure = alarm.failure
            self._stale = True
            self._broken = alarm.broken
            raise PeerLost(alarm.failure.message) if alarm.broken else Poisoned(alarm.failure)
        self._linger(end, 0.0)

    def _linger(self, end: float, seconds: float) -> None:
        """Lets the service do its chores for some time, unless there is no more reason to wait."""
        try:
            self._chore(self.number, seconds)
        except PeerLost as error:
            raise self._break(str(error)) from None
        if time.monotonic() >= end:
            raise self._break(f"no answer within {self._timeout:g} s (GT_COLLECTIVE_TIMEOUT)")

    def _connect(self) -> None:
        """Meets the other members, and opens the connections of the next generation."""
        generation = self._generation + 1
        prefix = f"{self.number}/{generation}/"
        keys = [f"{prefix}past/{rank}" for rank in range(self.size)]
        end = time.monotonic() + self._timeout
        root = self._meeting_point()
        try:
            root.set(keys[self.rank], str(self._started - 1))
            pause = FIRST_LOOK
            while not root.check(keys):
                self._linger(end, pause)
                pause = min(2 * pause, LOOK)
            self._lost_up_to = max(int(root.get(key)) for key in keys)
            mesh = PrefixStore(prefix + "mesh", root)
            backend = self._device.open_backend(mesh, self.rank, self.size, self._timeout)
        except RuntimeError as error:
            raise self._break(first_line(error)) from None
        self._drop_backend()
        self._backend = backend
        self._generation = generation
        self._stale = False
        if generation > 0:
            self._forget(f"{self.number}/{generation - 1}/")

    def _meeting_point(self) -> Store:
        if self._root is None:
            try:
                self._root = self._stores.get(self.address)
            except PeerLost as error:
                raise self._break(str(error)) from None
        return self._root

    def _alarm(self) -> Alarm | None:
        key = self._alarm_key()
        assert self._root is not None
        try:
            return _decoder.decode(self._root.get(key)) if self._root.check([key]) else None
        except RuntimeError as error:
            raise self._break(f"the first member has gone: {first_line(error)}") from None

    def _raise_alarm(self, failure: Failure) -> None:
        self._failure = failure
        self._stale = True
        try:
            self._announce(Alarm(failure, broken=False))
        except RuntimeError as error:
            raise self._break(f"the first member has gone: {first_line(error)}") from None

    def _announce(self, alarm: Alarm) -> None:
        """Writes an alarm. The first one of a generation stays, so that all who wait name the same cause."""
        if self._root is not None:
            self._root.compare_set(self._alarm_key(), "", _encoder.encode(alarm).decode())

    def _break(self, reason: str) -> PeerLost:
        """The group is of no more use."""
        message = f"a collective of workers {', '.join(map(str, self.members))} failed: {reason}"
        self._broken = True
        self._failure = Failure(FailureKind.WORKER_LOST, message, worker=self.members[self.rank])
        # Where the store went down with its worker, the others notice by themselves.
        with suppress(RuntimeError):
            self._announce(Alarm(self._failure, broken=True))
        return PeerLost(message)

    def _alarm_key(self) -> str:
        return f"{self.number}/{self._generation}/alarm"

    def _drop_backend(self) -> None:
        if self._backend is not None:
            self._backend.abort()
            self._backend = None

    def _forget(self, prefix: str) -> None:
        """Removes keys, if the store is this process's own."""
        if self.rank == 0 and self._root is not None:
            for key in self._root.list_keys():
                if key.startswith(prefix):
                    self._root.delete_key(key)
