"""Walks a client's block and writes the workers' programs: the dispatcher's inner loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gt_dispatcher.directory import Directory, Tensor
from gt_dispatcher.emission import Emission
from gt_dispatcher.listing import CALL, PLACEMENT, REGION_BEGIN, REGION_END, RELEASE, Item, ListedCall, Listing
from gt_dispatcher.planner.layout import Layout
from gt_dispatcher.planner.plan import Plan, Prepare
from gt_dispatcher.regions import RegionStack
from gt_dispatcher.storages import StorageKeeper
from gt_protocol.blocks import Bindings
from gt_protocol.errors import GTError, MalformedFrame
from gt_protocol.failure import Failure, FailureKind, describe_operand

#: A storage changes at most this often before an instruction: once for each operand and kind of change.
MAX_PREPARATIONS = 1024

_FREED = Failure(FailureKind.UNKNOWN_TENSOR, "the tensor was freed before this instruction")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a session, ready to be walked.

    Attributes:
        number: Sequence number of the client's message.
        listing: Its body.
        bindings: Its bindings.
    """

    number: int
    listing: Listing
    bindings: Bindings


class Interpreter:
    """Walks one block.

    Args:
        block: The block.
        directory: The session's tensors.
        regions: The regions that the session is in.
        keeper: Plans, and changes storages.
        emission: Where programs are written to.
        registers: Gives a register number that was never used.
    """

    def __init__(
        self,
        block: Block,
        directory: Directory,
        regions: RegionStack,
        keeper: StorageKeeper,
        emission: Emission,
        registers: Callable[[], int],
    ) -> None:
        self._block = block
        self._directory = directory
        self._regions = regions
        self._keeper = keeper
        self._emission = emission
        self._register = registers
        self._next_id = block.bindings.base
        self._next_float = 0
        self._next_int = 0
        self._counter = block.bindings.counter
        self._file: list[Tensor] = []

    def run(self) -> None:
        """Walks the block.

        Raises:
            MalformedFrame: The bindings do not fit the body.
        """
        listing, bindings = self._block.listing, self._block.bindings
        check_bindings(listing, bindings, self._directory)
        self._file = [self._directory.find(number) for number in reversed(bindings.inputs)]
        origin = 0
        for item in listing.items:
            kind = item.kind
            if kind == CALL:
                self._call(item, origin)
                origin += 1
            elif kind == RELEASE:
                self._release(self._file[item.operands[0]])
            elif kind == PLACEMENT:
                self._place(item, origin)
                origin += 1
            elif kind == REGION_BEGIN:
                self._regions.enter(item.signal)
            elif kind == REGION_END:
                self._regions.leave()
        for number in bindings.late_frees:
            self._release(self._directory.find(number))

    def _call(self, item: Item, origin: int) -> None:
        listed = item.call
        assert listed is not None
        size = listed.size
        floats: list[float] = []
        ints: list[int] = []
        if size.floats:
            floats = self._block.bindings.floats[self._next_float : self._next_float + size.floats]
            self._next_float += size.floats
        if size.ints:
            ints = self._block.bindings.ints[self._next_int : self._next_int + size.ints]
            self._next_int += size.ints
        if listed.random:
            ints = [*ints, self._counter]
            self._counter += 1
        file = self._file
        operands = [file[position] for position in item.operands]
        key = (listed.key, self._regions.key, *[tensor.layout_id for tensor in operands])
        plan = self._keeper.plans.get(key)
        if type(plan) is not Plan:
            plan = self._slow_plan(listed, operands, origin)
            if plan is None:
                return
        register = self._register
        made = [Tensor(self._next_id + k, layout, register()) for k, layout in enumerate(plan.outputs)]
        registers = (*[tensor.register for tensor in operands], *[tensor.register for tensor in made])
        self._emission.run(plan, origin, registers, floats, ints)
        self._add(made)
        if listed.views:
            for tensor, base in zip(made, listed.bases, strict=True):
                if base >= 0:
                    owner = operands[base]
                    assert owner.layout is not None
                    self._directory.share(tensor, owner, owner.layout)

    def _slow_plan(self, listed: ListedCall, operands: Sequence[Tensor], origin: int) -> Plan | None:
        """Plans a call that was not seen before; if there can be no plan, its results get the reason."""
        failure = next((tensor.failure for tensor in operands if tensor.failure is not None), None)
        if failure is None:
            try:
                return self._prepared_plan(listed, operands)
            except GTError as error:
                failure = self._failure(listed, operands, origin, str(error))
        for position in listed.targets:
            self._lose(operands[position], failure)
        self._add([Tensor.failed(self._next_id + k, failure) for k in range(listed.size.outputs)])
        return None

    def _prepared_plan(self, listed: ListedCall, operands: Sequence[Tensor]) -> Plan:
        for _ in range(MAX_PREPARATIONS):
            layouts: list[Layout] = []
            for tensor in operands:
                assert tensor.layout is not None
                layouts.append(tensor.layout)
            answer = self._keeper.plan(listed, tuple(layouts), self._regions)
            if isinstance(answer, Plan):
                return answer
            assert isinstance(answer, Prepare)
            self._keeper.prepare(operands[answer.operand], answer.change, self._emission)
        raise GTError(f"{listed.name} found no placement of its operands that it can work on; please report this")

    def _place(self, item: Item, origin: int) -> None:
        source = self._file[item.operands[0]]
        number = self._next_id
        failure = source.failure
        if failure is None:
            try:
                region = self._regions.tensor_region(item.signal)
                self._add([self._keeper.place(source, number, region, self._emission)])
                return
            except GTError as error:
                failure = Failure(
                    FailureKind.SHARDING,
                    str(error),
                    "gt.signal.tensor",
                    block=self._block.number,
                    instruction=origin,
                    signal=item.signal,
                )
        self._add([Tensor.failed(number, failure)])

    def _add(self, made: Sequence[Tensor]) -> None:
        tensors = self._directory.tensors
        for tensor in made:
            tensors[tensor.id] = tensor
        self._file += made
        self._next_id += len(made)

    def _release(self, tensor: Tensor) -> None:
        for layout, register in self._directory.remove(tensor):
            self._emission.free(layout, register)
        tensor.fail(_FREED)

    def _lose(self, tensor: Tensor, failure: Failure) -> None:
        if tensor.failure is None:
            for layout, register in self._directory.fail(tensor, failure):
                self._emission.free(layout, register)

    def _failure(self, listed: ListedCall, operands: Sequence[Tensor], origin: int, message: str) -> Failure:
        metas = [tensor.layout.meta for tensor in operands if tensor.layout is not None]
        shapes = tuple(describe_operand(meta.dtype, meta.shape) for meta in metas)
        return Failure(
            FailureKind.OPERATOR, message, listed.name, shapes, self._block.number, origin, self._regions.signal
        )


def check_bindings(listing: Listing, bindings: Bindings, directory: Directory) -> None:
    """Checks that bindings fit their body.

    Raises:
        MalformedFrame: They do not.
    """
    if len(bindings.inputs) != listing.inputs:
        raise MalformedFrame(f"{len(bindings.inputs)} inputs for {listing.inputs} slots")
    if len(bindings.floats) != listing.floats or len(bindings.ints) != listing.ints:
        raise MalformedFrame("the numbers in the bindings do not fit the body")
    for number in range(bindings.base, bindings.base + listing.outputs):
        if number in directory.tensors:
            raise MalformedFrame(f"tensor {number} is there already")
