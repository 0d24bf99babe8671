"""The workers that the dispatcher has accepted, and what each has been told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gt_dispatcher.events import Address
from gt_dispatcher.outbox import Outbox
from gt_dispatcher.planner.layout import Mesh
from gt_protocol.heartbeat import Pulse
from gt_protocol.link import Link
from gt_protocol.messages import WorkerOrder
from gt_protocol.programs import DropGroup, FormGroup, Member
from gt_protocol.wire import WORKER_ORDERS, Buffer

#: Orders that a worker may have in flight. It bounds what a worker holds, and is deep enough to keep it busy.
WORKER_WINDOW = 256


@dataclass(eq=False)
class WorkerState:
    """One worker.

    Attributes:
        index: Its place in the cluster.
        incarnation: The process's own random id.
        address: Where it is reached now.
        device: Name of its device.
        store: Address of its rendezvous store.
        pulse: Signs of life.
        link: The ordered link to it.
        outbox: What waits for it.
        defined: Numbers of the plans that it knows the routine of.
        retired: Numbers that it may forget; they go with its next program.
        homes: Sessions that begin on it.
    """

    index: int
    incarnation: bytes
    address: Address
    device: str
    store: str
    pulse: Pulse
    link: Link = field(default_factory=lambda: Link(WORKER_WINDOW))
    outbox: Outbox = field(init=False)
    defined: set[int] = field(default_factory=set)
    retired: list[int] = field(default_factory=list)
    homes: int = 0

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.link)

    def order(self, order: WorkerOrder, buffers: Iterable[Buffer] = ()) -> int:
        """Queues an order; returns its number."""
        return self.outbox.put(WORKER_ORDERS.encode(order), list(buffers))


class WorkerPool:
    """All workers, and the process groups among them.

    Args:
        expected: Number of workers that make the cluster complete.
    """

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self._by_index: dict[int, WorkerState] = {}
        self._by_address: dict[Address, WorkerState] = {}
        self._groups: dict[tuple[int, ...], int] = {}
        self._next_group = 1

    def __len__(self) -> int:
        """Number of workers that are there."""
        return len(self._by_index)

    def __iter__(self) -> Iterator[WorkerState]:
        """All workers that are there."""
        return iter(self._by_index.values())

    @property
    def complete(self) -> bool:
        """Whether every expected worker is there."""
        return all(index in self._by_index for index in range(self.expected))

    @property
    def indices(self) -> frozenset[int]:
        """Indices of the workers that are there."""
        return frozenset(self._by_index)

    def get(self, index: int) -> WorkerState | None:
        """The worker of an index."""
        return self._by_index.get(index)

    def at(self, address: Address) -> WorkerState | None:
        """The worker at an address."""
        return self._by_address.get(address)

    def add(self, worker: WorkerState) -> None:
        """Accepts a worker."""
        self._by_index[worker.index] = worker
        self._by_address[worker.address] = worker

    def relocate(self, worker: WorkerState, address: Address) -> None:
        """A worker has come back over a new connection."""
        self._by_address.pop(worker.address, None)
        worker.address = address
        self._by_address[address] = worker

    def remove(self, worker: WorkerState) -> None:
        """Forgets a worker, and has the others leave the groups that it was in."""
        self._by_index.pop(worker.index, None)
        self._by_address.pop(worker.address, None)
        for members, group in list(self._groups.items()):
            if worker.index in members:
                del self._groups[members]
                for index in members:
                    other = self._by_index.get(index)
                    if other is not None:
                        other.order(DropGroup(group))

    def group(self, members: tuple[int, ...]) -> int:
        """Number of the process group of these workers, which is formed if it is not there."""
        group = self._groups.get(members)
        if group is None:
            group = self._groups[members] = self._next_group
            self._next_group += 1
            order = FormGroup(group, tuple(Member(index, self._by_index[index].store) for index in members))
            for index in members:
                self._by_index[index].order(order)
        return group

    def retire(self, numbers: list[int]) -> None:
        """Has each worker forget the routines of plans that are gone."""
        for worker in self._by_index.values():
            known = worker.defined.intersection(numbers)
            worker.defined -= known
            worker.retired += sorted(known)

    def least_used(self) -> Mesh | None:
        """A mesh of the worker on which the fewest sessions have begun, or None if there is no worker."""
        worker = min(self._by_index.values(), key=lambda worker: (worker.homes, worker.index), default=None)
        return None if worker is None else Mesh.single(worker.index)
