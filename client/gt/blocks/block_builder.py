"""The block under construction."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from gt.blocks.cuts import HASH_MASK, MIN_INSTRUCTIONS, CutRule
from gt.blocks.encoding import BodyEncoder, SignalNames
from gt.blocks.handles import FIRST_OUTPUT, Handle, frees
from gt.blocks.idle import IdleFlusher
from gt.blocks.regions import Regions
from gt.errors import ClientError
from gt.records import Record
from gt.session_api import current_session, session_begun
from gt_protocol.blocks import ENTER, EXIT, FREE, PLACE, Bindings, TensorMeta

if TYPE_CHECKING:
    from gt.tensor import FleetTensor

_Contents: TypeAlias = tuple[list[int], list[Record], list[Any], dict[int, int], list[float], list[int]]

#: Share of a placement in the rolling hash.
PLACE_GEAR: Final = 0x5A5A
#: Longest wait for a block that is being sent when the interpreter ends, in seconds.
CLOSE_TIMEOUT: Final = 1.0


class BlockBuilder:
    """Collects instructions, and sends them block by block.

    All methods may be called from any thread. Ctrl-C may strike between any two calls of Python functions, so each
    change of state is a row of plain assignments without a call between them: an instruction is in the stream as
    a whole, or not at all.

    Attributes:
        emitted: Number of instructions so far; a change means that the program is busy.
        regions: The program's regions.
        idle: Sends what waits when the program pauses.
        seed: The session's random seed.
        counter: Number of random instructions since the seed was set.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.Lock()
        self._signals = SignalNames()
        self._encoder = BodyEncoder(self._signals)
        self._cuts = CutRule()
        self.regions = Regions()
        self.idle = IdleFlusher(self)
        self._stream: list[int] = []
        self._records: list[Record] = []
        self._sources: list[Any] = []
        self._slots: dict[int, int] = {}
        self._floats: list[float] = []
        self._ints: list[int] = []
        self._base = FIRST_OUTPUT
        self._next = FIRST_OUTPUT
        self._next_upload = 1
        self._count = 0
        self._rolling = 0
        self._changes_region = False
        self._unsent: deque[tuple[bytes, Bindings, tuple[Any, ...]]] = deque()
        self.emitted = 0
        self.seed = 0
        self.counter = 0
        self._block_counter = 0
        self._closed = False
        os.register_at_fork(after_in_child=self._forbid)
        atexit.register(self._close)

    @property
    def pending(self) -> bool:
        """Whether instructions wait to be sent."""
        return bool(self._stream or self._unsent)

    def emit(
        self,
        record: Record,
        operands: Sequence[FleetTensor],
        floats: list[float],
        ints: list[int],
        made: Handle | None,
        source: Any,
    ) -> int:
        """Adds an instruction.

        Args:
            record: The call.
            operands: Its tensors, in order.
            floats: Its floats, in order.
            ints: Its integers, in order.
            made: The handle that gets the id of the first new tensor, or None.
            source: Where in the program it comes from.

        Returns:
            Id of its first new tensor.
        """
        with self._lock:
            if self.regions.used:
                self._sync_regions()
            if frees.dropped:
                self._take_frees()
            base, slots = self._base, self._slots
            codes = [record.number]
            for tensor in operands:
                number = tensor._h.id
                if number >= base:
                    codes.append(number - base)
                else:
                    slot = slots.get(number)
                    if slot is None:
                        slot = slots[number] = -1 - len(slots)
                    codes.append(slot)
            first = self._next
            count = self._count + 1
            rolling = ((self._rolling << 1) ^ record.gear) & HASH_MASK
            self._stream += codes
            self._records += (record,)
            self._sources += (source,)
            self._floats += floats
            self._ints += ints
            self._next = first + record.made
            self._count = count
            self._rolling = rolling
            self.counter += record.random
            self.emitted += 1
            if made is not None:
                made.id = first
            if count == 1:
                self._begin()
            elif count >= MIN_INSTRUCTIONS and self._cuts.is_due(rolling, count):
                self._cut()
        return first

    def place(self, operand: FleetTensor, signal: str, made: Handle, source: Any) -> None:
        """Adds a placement of a tensor by a signal's rule."""
        with self._lock:
            if self.regions.used:
                self._sync_regions()
            if frees.dropped:
                self._take_frees()
            codes = [PLACE, self._reference(operand._h.id), self._signals.number(signal)]
            count = self._count + 1
            self._stream += codes
            self._sources += (source,)
            made.id = self._next
            self._next += 1
            self._count = count
            self._rolling = ((self._rolling << 1) ^ PLACE_GEAR) & HASH_MASK
            self.emitted += 1
            if count == 1:
                self._begin()

    def upload(self, handle: Handle, meta: TensorMeta, data: memoryview) -> None:
        """Sends a tensor's bytes, ahead of the block under construction: no instruction in it can need the tensor.

        Args:
            handle: Gets the tensor's id.
            meta: Its metadata.
            data: Its bytes, dense, in row-major order; must not change afterwards.
        """
        with self._lock:
            if self.regions.used:
                self._sync_regions()
            if self._changes_region:
                self._cut()
            while self._unsent:
                self._send()
            number = self._next_upload
            self._next_upload = number + 1
            current_session().upload(number, meta, data)
            handle.id = number

    def flush(self) -> None:
        """Sends all instructions that were emitted so far."""
        with self._lock:
            if frees.dropped:
                self._take_frees()
            self._cut()

    def read(self, request: int, tensor: int) -> None:
        """Sends all instructions that were emitted so far, and asks for a tensor's value.

        Args:
            request: Number that the answer carries.
            tensor: The tensor's id.
        """
        with self._lock:
            if frees.dropped:
                self._take_frees()
            self._cut([(request, tensor)])

    def flush_if_idle(self, emitted: int) -> None:
        """Sends all, unless something was emitted since `emitted` was read."""
        with self._lock:
            if self.emitted == emitted and not self._closed:
                if frees.dropped:
                    self._take_frees()
                self._cut()

    def reset(self) -> None:
        """Forgets what was not sent: the session has ended, and its tensors with it."""
        with self._lock:
            emptied: _Contents = ([], [], [], {}, [], [])
            self._unsent = deque()
            self._stream, self._records, self._sources, self._slots, self._floats, self._ints = emptied
            self._base = self._next
            self._count = 0
            self._changes_region = False
            self._block_counter = self.counter
            self.regions.stream = ()
            frees.dropped.clear()
            frees.late.clear()

    def set_random(self, seed: int, counter: int) -> None:
        """Sets the state that random instructions emitted from now on draw from."""
        with self._lock:
            if self.counter != self._block_counter:
                self._cut()
            self.seed = seed
            self.counter = self._block_counter = counter

    def _begin(self) -> None:
        """A block has got its first instruction: note who emits, and have the idle thread watch."""
        frees.emitter = threading.get_ident()
        self.idle.start()
        if frees.parked:
            frees.parked = False
            frees.wake.put(None)

    def _reference(self, number: int) -> int:
        if number >= self._base:
            return number - self._base
        return self._slots.setdefault(number, -1 - len(self._slots))

    def _take_frees(self) -> None:
        """Moves what the program has dropped into the stream."""
        dropped, base, slots = frees.dropped, self._base, self._slots
        taken = len(dropped)
        codes: list[int] = []
        for number in dropped[:taken]:
            codes += (FREE, number - base if number >= base else slots.setdefault(number, -1 - len(slots)))
        self._stream += codes
        del dropped[:taken]

    def _sync_regions(self) -> None:
        """Lets the stream leave and enter regions until it is where the next instruction belongs."""
        regions = self.regions
        wanted, stream = regions.wanted(), regions.stream
        if wanted == stream:
            return
        self._cut()
        shared = 0
        while shared < min(len(wanted), len(stream)) and wanted[shared] == stream[shared]:
            shared += 1
        codes = [EXIT] * (len(stream) - shared)
        for signal in wanted[shared:]:
            codes += (ENTER, self._signals.number(signal))
        self._stream += codes
        self._changes_region = True
        regions.stream = wanted

    def _cut(self, reads: Sequence[tuple[int, int]] = ()) -> None:
        """Ends the block under construction, if it holds anything or anything is to be read, and sends it."""
        if not (reads or self._count or self._unsent or self._changes_region or session_begun()):
            # Nothing but frees of tensors that went with their session: not worth a new one.
            self._stream, self._slots = [], {}
            frees.late.clear()
            return
        if self._stream or frees.late or reads:
            late = frees.late[:]
            body = self._encoder.encode(self._stream, self._records, len(self._slots))
            bindings = Bindings(
                self._base,
                list(self._slots),
                self._floats,
                self._ints,
                late,
                self.seed,
                self._block_counter,
                list(reads),
            )
            block = (body, bindings, tuple(self._sources))
            emptied: _Contents = ([], [], [], {}, [], [])
            queue = deque((*self._unsent, block))
            self._unsent = queue
            self._stream, self._records, self._sources, self._slots, self._floats, self._ints = emptied
            self._base = self._next
            self._count = 0
            self._changes_region = False
            self._block_counter = self.counter
            del frees.late[: len(late)]
        while self._unsent:
            self._send()

    def _send(self) -> None:
        """Sends the oldest block. If that is interrupted, the block stays and goes with the next one."""
        current_session().send_block(*self._unsent[0])
        self._unsent.popleft()

    def _close(self) -> None:
        """At the interpreter's end, the idle thread must not be caught while it sends."""
        self._closed = self._lock.acquire(timeout=CLOSE_TIMEOUT)
        if self._closed:
            self._lock.release()

    def _forbid(self) -> None:
        """In a forked child: the session, if anything was ever emitted, belongs to the parent."""
        self._lock = _Forked() if self.emitted or self._next_upload > 1 else threading.Lock()


class _Forked:
    """Stands for the lock in a forked child, where emitting is an error."""

    def __enter__(self) -> NoReturn:
        raise ClientError(
            "this process was forked from one that uses the fleet, and can't share its session: keep fleet tensors out "
            "of DataLoader workers and forked children, or start them with the 'spawn' method"
        )

    def __exit__(self, *_: object) -> None:
        """Never reached."""
