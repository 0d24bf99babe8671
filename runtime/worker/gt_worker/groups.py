"""All groups that this worker is a member of."""

from __future__ import annotations

from collections.abc import Callable

from gt_protocol.errors import MalformedFrame
from gt_protocol.programs import FormGroup
from gt_worker.devices import Device
from gt_worker.errors import PeerLost
from gt_worker.group import Group
from gt_worker.rendezvous import Stores


class Groups:
    """All groups of this worker.

    Args:
        index: Index of this worker.
        device: Its device.
        stores: Stores to meet at.
        timeout: Seconds after which a collective is given up.
        chore: Called now and then while a collective waits. May take the seconds that it is given; raises `PeerLost`
            to end the wait.
    """

    def __init__(
        self, index: int, device: Device, stores: Stores, timeout: float, chore: Callable[[float], None]
    ) -> None:
        self._index = index
        self._device = device
        self._stores = stores
        self._timeout = timeout
        self._serve = chore
        self._groups: dict[int, Group] = {}
        self._leaving: set[int] = set()

    def form(self, order: FormGroup) -> None:
        """Joins a group. Nothing is sent before its first collective.

        Raises:
            MalformedFrame: This worker is no member.
        """
        if not any(member.worker == self._index for member in order.members):
            raise MalformedFrame(f"group {order.group} is without worker {self._index}, which is to join it")
        self._groups[order.group] = Group(order, self._index, self._device, self._stores, self._timeout, self._chore)

    def get(self, number: int) -> Group:
        """A group by its number.

        Raises:
            PeerLost: It is dissolved.
        """
        group = self._groups.get(number)
        if group is None:
            raise PeerLost("the group of workers is dissolved, because one of them has gone")
        return group

    def announce_drop(self, number: int) -> None:
        """Says that the order to leave a group has come and will have its turn; may be called while one waits."""
        self._leaving.add(number)

    def drop(self, number: int) -> None:
        """Leaves a group."""
        self._leaving.discard(number)
        group = self._groups.pop(number, None)
        if group is not None:
            group.close()
        self._stores.keep({group.address for group in self._groups.values()})

    def clear(self) -> None:
        """Leaves all groups."""
        for number in list(self._groups):
            self.drop(number)
        self._leaving.clear()

    def _chore(self, number: int, seconds: float) -> None:
        self._serve(seconds)
        if number in self._leaving:
            raise PeerLost("a member has gone")
