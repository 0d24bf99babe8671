"""From the stream of a block under construction to an encoded body."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from gt.records import Record, encode_call
from gt_protocol.blocks import ENTER, EXIT, FREE, PLACE, Call, call_size, encode_body

#: Numbers in the streams of the bodies to remember: a bound on memory, about 40 bytes each.
MAX_REMEMBERED: Final = 1 << 18


class SignalNames:
    """Gives each signal's name a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []

    def number(self, name: str) -> int:
        """The number of a name."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def name(self, number: int) -> str:
        """The name of a number."""
        return self._names[number]


class BodyEncoder:
    """Encodes streams, and remembers the latest.

    A stream names calls and signals by this process's own numbers; a body by tables in the order of first use, so
    that it comes out the same in every process.
    """

    def __init__(self, signals: SignalNames) -> None:
        self._signals = signals
        self._bodies: OrderedDict[tuple[int, ...], bytes] = OrderedDict()
        self._remembered = 0

    def encode(self, stream: list[int], records: Sequence[Record], inputs: int) -> bytes:
        """The body of a stream.

        Args:
            stream: Codes as in `gt_protocol.blocks`, with this process's numbers.
            records: The record of each call, in order.
            inputs: Number of input slots.
        """
        key = (inputs, *stream)
        body = self._bodies.get(key)
        if body is not None:
            self._bodies.move_to_end(key)
            return body
        body = self._bodies[key] = self._encode(stream, records, inputs)
        self._remembered += len(key)
        while self._remembered > MAX_REMEMBERED and len(self._bodies) > 1:
            self._remembered -= len(self._bodies.popitem(last=False)[0])
        return body

    def _encode(self, stream: list[int], records: Sequence[Record], inputs: int) -> bytes:
        calls: list[Call] = []
        places: dict[bytes, int] = {}
        signals: dict[int, int] = {}
        out: list[int] = []
        coming = iter(records)
        at = 0
        while at < len(stream):
            code = stream[at]
            width = 1
            if code >= 0:
                call = next(coming).call
                place = places.setdefault(encode_call(call), len(calls))
                if place == len(calls):
                    calls.append(call)
                width += call_size(call).operands
                out += [place, *stream[at + 1 : at + width]]
            elif code == FREE:
                width = 2
                out += stream[at : at + width]
            elif code == PLACE:
                width = 3
                out += [PLACE, stream[at + 1], signals.setdefault(stream[at + 2], len(signals))]
            elif code == ENTER:
                width = 2
                out += [ENTER, signals.setdefault(stream[at + 1], len(signals))]
            else:
                assert code == EXIT
                out.append(EXIT)
            at += width
        return encode_body(calls, [self._signals.name(number) for number in signals], out, inputs)
