"""The messages between client and dispatcher, and between dispatcher and worker.

Each message is one MessagePack frame; raw buffers follow as frames of their own. Messages are of two kinds:

- *control* messages (hello, welcome, heartbeat, ...) have no sequence number and may be lost;
- *payloads* travel in a `Sequenced` envelope over an ordered link (`gt_protocol.link`), exactly once.

Rules of evolution: tags are never reused; fields are only added at the end, with a default; a new meaning is a new
tag; any other change raises `PROTOCOL_VERSION`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from gt_protocol.blocks import Bindings, TensorMeta
from gt_protocol.failure import Failure
from gt_protocol.programs import DropGroup, FormGroup, Program, Stop, StoreShard

PROTOCOL_VERSION: Final = 1


class RefusalCode:
    """Why a connection is refused."""

    VERSION: Final = "version"
    CLUSTER: Final = "cluster"
    OPERATORS: Final = "operators"
    EPOCH: Final = "epoch"
    UNKNOWN_PEER: Final = "unknown-peer"
    MALFORMED: Final = "malformed"
    SHARDING: Final = "sharding"
    BUSY: Final = "busy"
    DUPLICATE: Final = "duplicate"


class ClientHello(msgspec.Struct, array_like=True, tag=0):
    """A client begins or resumes a session.

    Attributes:
        protocol: `PROTOCOL_VERSION`.
        cluster_uid: The cluster that the client means, or empty for any.
        session: The client's own random id, 16 bytes.
        epoch: Epoch of the session to resume; 0 begins one.
        received: Last sequence number received from the dispatcher.
        operators: Digest of the operator table.
        sharding: Text of the sharding file, or empty.
        sharding_source: What to call that file in messages.
        pid: Process id, where both are on one host, else 0.
    """

    protocol: int
    cluster_uid: str
    session: bytes
    epoch: int
    received: int
    operators: str
    sharding: str = ""
    sharding_source: str = ""
    pid: int = 0


class WorkerHello(msgspec.Struct, array_like=True, tag=1):
    """A worker offers itself.

    Attributes:
        protocol: `PROTOCOL_VERSION`.
        cluster_uid: The cluster that it belongs to, or empty for any.
        incarnation: The process's own random id, 16 bytes.
        epoch: Epoch to resume; 0 begins anew.
        received: Last sequence number received from the dispatcher.
        operators: Digest of the operator table.
        index: Its place among the workers, from 0.
        device: Name of its device, such as `cpu` or `cuda:0`.
        store: Address of its rendezvous store, `host:port`.
        pid: Process id, where both are on one host, else 0.
    """

    protocol: int
    cluster_uid: str
    incarnation: bytes
    epoch: int
    received: int
    operators: str
    index: int
    device: str
    store: str
    pid: int = 0


class Welcome(msgspec.Struct, array_like=True, tag=2):
    """The dispatcher accepts a peer.

    Attributes:
        epoch: The dispatcher's incarnation.
        cluster_uid: Its cluster.
        received: Last sequence number received from the peer; it resends what came after.
        limit: Highest sequence number that the peer may send.
        workers: Number of workers that are there now.
        heartbeat: Interval of heartbeats, in seconds.
        silence: After so many seconds without a word, either side takes the other for dead.
    """

    epoch: int
    cluster_uid: str
    received: int
    limit: int
    workers: int
    heartbeat: float
    silence: float


class Refused(msgspec.Struct, array_like=True, tag=3):
    """The dispatcher does not accept a peer, or ends its session.

    Attributes:
        code: One of `RefusalCode`.
        message: Why, and what to do.
    """

    code: str
    message: str


class Heartbeat(msgspec.Struct, array_like=True, tag=4):
    """A sign of life that also acknowledges.

    Attributes:
        received: Last sequence number received; everything up to it can be forgotten.
        limit: Highest sequence number that the other side may send.
    """

    received: int
    limit: int


class Goodbye(msgspec.Struct, array_like=True, tag=5):
    """The sender ends the session on purpose."""


class Sequenced(msgspec.Struct, array_like=True, tag=6):
    """Envelope of a payload.

    Attributes:
        sequence: Number on this link, from 1.
        received: Last sequence number received in the other direction.
        limit: Highest sequence number that the other side may send.
        payload: The encoded payload.
    """

    sequence: int
    received: int
    limit: int
    payload: msgspec.Raw


class BlockMessage(msgspec.Struct, array_like=True, tag=0):
    """A block of instructions; the body follows as a raw frame.

    Attributes:
        bindings: What makes the body concrete.
    """

    bindings: Bindings


class Upload(msgspec.Struct, array_like=True, tag=1):
    """A tensor of the client's; its bytes follow in raw frames, dense, in row-major order.

    Attributes:
        tensor: Id of the tensor.
        meta: Its metadata; the strides say how the worker lays it out.
    """

    tensor: int
    meta: TensorMeta


class Value(msgspec.Struct, array_like=True, tag=0):
    """A value; its parts follow in raw frames, each dense, in row-major order.

    Attributes:
        request: The read that it answers.
        dtype: Element type.
        axis: Axis along which the parts are concatenated.
        shapes: Shape of each part.
        frames: Number of raw frames of each part.
    """

    request: int
    dtype: str
    axis: int
    shapes: tuple[tuple[int, ...], ...]
    frames: tuple[int, ...]


class FetchFailed(msgspec.Struct, array_like=True, tag=1):
    """A value can't be had.

    Attributes:
        request: The read that it answers.
        failure: Why.
    """

    request: int
    failure: Failure


class RegisterValue(msgspec.Struct, array_like=True, tag=0):
    """A worker's answer to a program's read; the bytes follow in raw frames.

    Attributes:
        request: The number given.
        dtype: Element type.
        shape: Shape of this worker's part.
    """

    request: int
    dtype: str
    shape: tuple[int, ...]


class RegisterFailed(msgspec.Struct, array_like=True, tag=1):
    """A register has no value.

    Attributes:
        request: The number given.
        failure: Why.
    """

    request: int
    failure: Failure


class WorkerReport(msgspec.Struct, array_like=True, tag=2):
    """What a worker did since its last report.

    Attributes:
        instructions: Instructions run.
        busy: Seconds spent on them.
        registers: Registers in use.
        failures: Session and cause of instructions that failed first here (not of what depends on them).
    """

    instructions: int
    busy: float
    registers: int
    failures: tuple[tuple[int, Failure], ...] = ()


ClientPayload: TypeAlias = BlockMessage | Upload
"""Client to dispatcher."""
ClientAnswer: TypeAlias = Value | FetchFailed
"""Dispatcher to client."""
WorkerOrder: TypeAlias = Program | FormGroup | DropGroup | StoreShard | Stop
"""Dispatcher to worker."""
WorkerAnswer: TypeAlias = RegisterValue | RegisterFailed | WorkerReport
"""Worker to dispatcher."""
Control: TypeAlias = ClientHello | WorkerHello | Welcome | Refused | Heartbeat | Goodbye | Sequenced
"""The first frame of every message."""
