"""Bodies as the dispatcher walks them: decoded, checked and unpacked once, then found again by their bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from gt_dispatcher.planner.instruction import written_operands
from gt_protocol.blocks import ENTER, EXIT, FREE, PLACE, Body, Call, CallSize, NewTensor, decode_body
from gt_protocol.operators import OperatorTable

#: Item kinds of a listing. Calls are the common case and stand first.
CALL: Final = 0
RELEASE: Final = 1
PLACEMENT: Final = 2
REGION_BEGIN: Final = 3
REGION_END: Final = 4


class ListedCall(msgspec.Struct, frozen=True, eq=False):
    """A call with what the dispatcher asks of it again and again.

    Attributes:
        key: Small number: equal calls of all bodies share it.
        call: The call.
        size: What it consumes.
        name: Name of its operator.
        random: Whether it draws random numbers.
        targets: The operands that it writes to.
        bases: For each new tensor, the operand that it is a view of, or -1.
        views: Whether any of them is a view.
    """

    key: int
    call: Call
    size: CallSize
    name: str
    random: bool
    targets: tuple[int, ...]
    bases: tuple[int, ...]
    views: bool


class Item(msgspec.Struct, frozen=True, eq=False):
    """One step of a block.

    Tensors are named by position in the block's file: first the input slots, last one first, then the outputs.

    Attributes:
        kind: What to do.
        operands: Positions of the operands.
        call: The call, if it is one.
        signal: The signal, if it concerns one.
    """

    kind: int
    operands: tuple[int, ...] = ()
    call: ListedCall | None = None
    signal: str = ""


class Listing(msgspec.Struct, frozen=True, eq=False):
    """A body, ready to be walked.

    Attributes:
        items: Its steps.
        inputs: Number of input slots.
        outputs: Number of new tensors.
        floats: Number of floats.
        ints: Number of integers.
        instructions: Number of calls and placements.
    """

    items: tuple[Item, ...]
    inputs: int
    outputs: int
    floats: int
    ints: int
    instructions: int


class ListingCache:
    """Decodes bodies, and remembers the latest.

    Args:
        operators: The operator table.
        capacity: Number of items, over all bodies, to remember: a bound on memory, about 200 bytes each.
    """

    def __init__(self, operators: OperatorTable, capacity: int = 1 << 16) -> None:
        self._operators = operators
        self._capacity = capacity
        self._remembered = 0
        self._listings: OrderedDict[bytes, Listing] = OrderedDict()
        # By encoded bytes: as values, calls with True and with 1 would be equal.
        self._calls: OrderedDict[bytes, ListedCall] = OrderedDict()
        self._next_key = 0

    def get(self, body: bytes) -> Listing:
        """The listing of an encoded body.

        Raises:
            MalformedFrame: It is no body.
        """
        listing = self._listings.get(body)
        if listing is None:
            listing = self._listings[body] = self._unpack(decode_body(body, len(self._operators)))
            self._remembered += len(listing.items)
            while self._remembered > self._capacity and len(self._listings) > 1:
                self._remembered -= len(self._listings.popitem(last=False)[1].items)
        else:
            self._listings.move_to_end(body)
        return listing

    def _unpack(self, body: Body) -> Listing:
        calls = [self._listed(call, size) for call, size in zip(body.calls, body.sizes, strict=True)]
        stream, shift = body.stream, body.inputs
        items: list[Item] = []
        at = 0
        while at < len(stream):
            code = stream[at]
            at += 1
            if code >= 0:
                call = calls[code]
                end = at + call.size.operands
                items.append(Item(CALL, tuple(shift + ref for ref in stream[at:end]), call))
                at = end
            elif code == FREE:
                items.append(Item(RELEASE, (shift + stream[at],)))
                at += 1
            elif code == PLACE:
                items.append(Item(PLACEMENT, (shift + stream[at],), signal=body.signals[stream[at + 1]]))
                at += 2
            elif code == ENTER:
                items.append(Item(REGION_BEGIN, signal=body.signals[stream[at]]))
                at += 1
            elif code == EXIT:
                items.append(Item(REGION_END))
        return Listing(tuple(items), body.inputs, body.outputs, body.floats, body.ints, body.instructions)

    def _listed(self, call: Call, size: CallSize) -> ListedCall:
        encoded = msgspec.msgpack.encode(call)
        known = self._calls.get(encoded)
        if known is not None:
            self._calls.move_to_end(encoded)
            return known
        operator = self._operators[call.op]
        bases = tuple(output.base for output in call.outputs if isinstance(output, NewTensor))
        listed = ListedCall(
            key=self._next_key,
            call=call,
            size=size,
            name=operator.name,
            random=operator.random,
            targets=written_operands(call, operator.writes),
            bases=bases,
            views=any(base >= 0 for base in bases),
        )
        self._next_key += 1
        self._calls[encoded] = listed
        if len(self._calls) > self._capacity:
            self._calls.popitem(last=False)
        return listed
