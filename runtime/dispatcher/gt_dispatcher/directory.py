"""The tensors of one session: where each lies, and which share a storage."""

from __future__ import annotations

from gt_dispatcher.planner.layout import Layout
from gt_protocol.failure import Failure, FailureKind

#: Layout id of a tensor that has no value; no plan is ever cached under it.
NO_LAYOUT = -1


class Tensor:
    """One tensor of a session.

    Attributes:
        id: The client's number of it.
        layout: Where it is, or None if it has no value.
        layout_id: The layout's id, or `NO_LAYOUT`.
        register: Its number at the workers.
        storage: What it shares with views of it, or None if nothing does.
        failure: Why it has no value, or None.
    """

    __slots__ = ("failure", "id", "layout", "layout_id", "register", "storage")

    def __init__(self, number: int, layout: Layout, register: int) -> None:
        self.id = number
        self.layout: Layout | None = layout
        self.layout_id = layout.id
        self.register = register
        self.storage: Storage | None = None
        self.failure: Failure | None = None

    @classmethod
    def failed(cls, number: int, failure: Failure) -> Tensor:
        """A tensor without a value."""
        tensor = cls.__new__(cls)
        tensor.id = number
        tensor.register = -1
        tensor.storage = None
        tensor.layout = None
        tensor.layout_id = NO_LAYOUT
        tensor.failure = failure
        return tensor

    def move(self, layout: Layout, register: int) -> None:
        """The value is somewhere else now."""
        self.layout = layout
        self.layout_id = layout.id
        self.register = register

    def fail(self, failure: Failure) -> None:
        """The value is gone."""
        self.layout = None
        self.layout_id = NO_LAYOUT
        self.failure = failure


class Storage:
    """What several tensors share: the tensor that owns it, and views.

    Attributes:
        root: Layout of the tensor that spans the storage.
        root_register: Register of that tensor; kept while any view lives, even if the tensor itself is freed.
        members: The live tensors.
    """

    __slots__ = ("members", "root", "root_register")

    def __init__(self, owner: Tensor, layout: Layout) -> None:
        self.root = layout
        self.root_register = owner.register
        self.members: dict[int, Tensor] = {owner.id: owner}
        owner.storage = self


class Directory:
    """All live tensors of a session."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}

    def find(self, number: int) -> Tensor:
        """The tensor of an id. An id that was never made, or is freed, gives a tensor that has failed."""
        tensor = self.tensors.get(number)
        if tensor is None:
            message = f"tensor {number} is not known: it was freed, or never made"
            return Tensor.failed(number, Failure(FailureKind.UNKNOWN_TENSOR, message))
        return tensor

    def share(self, view: Tensor, base: Tensor, layout: Layout) -> None:
        """Notes that a new tensor is a view of another one, whose layout is given."""
        storage = base.storage or Storage(base, layout)
        storage.members[view.id] = view
        view.storage = storage

    def remove(self, tensor: Tensor) -> tuple[tuple[Layout, int], ...]:
        """Forgets a tensor.

        Returns:
            Layout and number of each register that nobody needs any more.
        """
        self.tensors.pop(tensor.id, None)
        storage = tensor.storage
        if storage is None:
            return () if tensor.layout is None else ((tensor.layout, tensor.register),)
        storage.members.pop(tensor.id, None)
        tensor.storage = None
        unused: list[tuple[Layout, int]] = []
        if tensor.layout is not None and tensor.register != storage.root_register:
            unused.append((tensor.layout, tensor.register))
        if not storage.members:
            unused.append((storage.root, storage.root_register))
        return tuple(unused)

    def fail(self, tensor: Tensor, failure: Failure) -> tuple[tuple[Layout, int], ...]:
        """A tensor has no value any more; it stays known until the client frees it.

        Returns:
            Layout and number of each register that nobody needs any more.
        """
        layout, storage = tensor.layout, tensor.storage
        tensor.fail(failure)
        if layout is None or (storage is not None and tensor.register == storage.root_register):
            return ()
        return ((layout, tensor.register),)
