"""Programs: what the dispatcher has a worker run.

The dispatcher plans each distinct instruction once for each layout of its operands. The result for one worker is a
**routine**: a short list of explicit steps (local calls, collectives, slices) over a small file of local registers. A
routine is sent once; after that, running it is a few integers in a program's code:

    routine, origin, register, register, ...    inputs first, then outputs
    FREE, register                              forget a register

`origin` is the instruction's position in the client's block, for error reports. Registers are numbered by the
dispatcher, across all sessions.

Local registers of a routine: 0 .. inputs-1 are the inputs, then come the outputs, then temporaries.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from gt_protocol.arguments import Argument

FREE: Final = -1


class CallStep(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Calls an operator on local tensors.

    `Operand.index` in the arguments is a local register, `FloatSlot.index` a float of the instruction.

    Attributes:
        op: Index into the operator table.
        args: Positional arguments.
        kwargs: Keyword arguments.
        results: Local register of each flattened result; -1 drops it.
        random: Seed the generator before the call, from the program's seed and the instruction's integer
            `counter`.
        counter: Position of the random counter among the instruction's integers, or -1.
    """

    op: int
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    results: tuple[int, ...]
    random: bool = False
    counter: int = -1


class SliceStep(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Copies a range of one axis into a new, dense tensor that keeps the order of the strides.

    Attributes:
        source: Local register.
        target: Local register.
        axis: Axis to cut.
        start: First index.
        length: Number of indices; 0 is legal.
    """

    source: int
    target: int
    axis: int
    start: int
    length: int


class CopyStep(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Writes a tensor into another one's storage: `target.copy_(source)`."""

    source: int
    target: int


class ZerosStep(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Makes zeros of a tensor's shape and type: this worker's part of a partial sum."""

    source: int
    target: int


class AllReduceStep(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Reduces over a group.

    Attributes:
        group: Group to reduce over.
        source: Local register.
        target: Local register of the result. If it is the source itself, the **whole storage** is reduced in
            place, so that every view of it is reduced as well.
        op: `sum`, `avg`, `max`, `min` or `product`.
    """

    group: int
    source: int
    target: int
    op: str


class AllGatherStep(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Concatenates the shards of a group.

    Attributes:
        group: Group to gather over, in the order of its members.
        source: Local register.
        target: Local register.
        axis: Axis of the shards.
        sizes: Size of each member's shard along that axis; they may differ, and be 0.
        strides: Strides of the whole, whose order of axes the result keeps. Empty: the order of the source's, which
            is not told where a shard has size 1 along an axis.
    """

    group: int
    source: int
    target: int
    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = ()


class ReduceScatterStep(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Reduces over a group and keeps this member's shard.

    Attributes:
        group: Group to reduce over.
        source: Local register.
        target: Local register.
        axis: Axis of the shards.
        sizes: Size of each member's shard along that axis.
        op: `sum`, `avg`, `max`, `min` or `product`.
    """

    group: int
    source: int
    target: int
    axis: int
    sizes: tuple[int, ...]
    op: str


class AllToAllStep(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Changes the axis that a tensor is sharded along.

    Attributes:
        group: Group to exchange with.
        source: Local register, sharded along `gather_axis`.
        target: Local register, sharded along `split_axis`.
        gather_axis: Axis that becomes whole.
        gather_sizes: Size of each member's shard along it.
        split_axis: Axis that becomes sharded.
        split_sizes: Size of each member's shard along it.
    """

    group: int
    source: int
    target: int
    gather_axis: int
    gather_sizes: tuple[int, ...]
    split_axis: int
    split_sizes: tuple[int, ...]


class BroadcastStep(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Sends one member's tensor to all members of a group.

    Attributes:
        group: Group to send over.
        root: Position of the sender in the group.
        source: Local register of the tensor on the sender; -1 elsewhere.
        target: Local register of the result.
        shape: Shape of the tensor.
        strides: Strides of the tensor, in elements.
        dtype: Element type.
    """

    group: int
    root: int
    source: int
    target: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


class AliasStep(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Gives a tensor a second register; no bytes move."""

    source: int
    target: int


class RestrideStep(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A view with explicit metadata: `source.as_strided(shape, strides, offset)`."""

    source: int
    target: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


Step: TypeAlias = (
    CallStep
    | SliceStep
    | CopyStep
    | ZerosStep
    | AllReduceStep
    | AllGatherStep
    | ReduceScatterStep
    | AllToAllStep
    | BroadcastStep
    | AliasStep
    | RestrideStep
)


class Routine(msgspec.Struct, frozen=True, array_like=True):
    """One planned instruction, as one worker runs it.

    Attributes:
        inputs: Number of input registers.
        outputs: Number of output registers.
        floats: Number of floats that the instruction has.
        ints: Number of integers that the instruction has (with the random counter, if it has one).
        steps: What to do, in order.
        name: Name of the client's operator, for reports.
    """

    inputs: int
    outputs: int
    floats: int
    ints: int
    steps: tuple[Step, ...]
    name: str


class Program(msgspec.Struct, array_like=True, tag=0):
    """A run of instructions of one session.

    Attributes:
        session: Number of the session, for reports.
        block: Sequence number of the client's message, for reports.
        define: Routines that the code uses for the first time, by number.
        forget: Routines that will not be used again.
        code: The code (see the module's text), as `pack_code` makes it.
        floats: Floats of all instructions, in order.
        ints: Integers of all instructions, in order.
        seed: The session's random seed.
        reads: Registers whose values are wanted at the end: number that the answer carries, and register.
    """

    session: int
    block: int
    define: tuple[tuple[int, Routine], ...]
    forget: tuple[int, ...]
    code: bytes
    floats: list[float]
    ints: list[int]
    seed: int = 0
    reads: list[tuple[int, int]] = []


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One member of a process group.

    Attributes:
        worker: Index of the worker.
        store: Address of its rendezvous store, `host:port`.
    """

    worker: int
    store: str


class FormGroup(msgspec.Struct, array_like=True, tag=1):
    """Form a process group; the first member's store is the meeting point.

    Attributes:
        group: Number of the group, never reused within an epoch.
        members: Its members, in order.
    """

    group: int
    members: tuple[Member, ...]


class DropGroup(msgspec.Struct, array_like=True, tag=2):
    """Leave a process group: a member has gone."""

    group: int


class StoreShard(msgspec.Struct, array_like=True, tag=3):
    """Keep an uploaded tensor, or a part of it. Its bytes follow in raw frames.

    The frames hold a dense tensor of `shape` in row-major order. Then, if `cut` is set, only a range of one axis is
    kept.

    Attributes:
        register: Where to keep it.
        shape: Shape of what the frames hold.
        strides: Strides of the tensor to make, in elements; same order of axes for the part that is kept.
        dtype: Element type.
        cut: (axis, start, length), or None for all of it.
    """

    register: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    cut: tuple[int, int, int] | None = None


class Stop(msgspec.Struct, array_like=True, tag=4):
    """End the process, after what came before."""


def pack_code(code: Iterable[int]) -> bytes:
    """Packs a program's code as little-endian 64-bit integers."""
    packed = array("q", code)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_code(data: bytes) -> array[int]:
    """Reverses `pack_code`.

    Raises:
        ValueError: The bytes end within a number.
    """
    packed = array("q")
    packed.frombytes(data)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed
