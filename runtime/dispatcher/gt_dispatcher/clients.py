"""What clients ask for: blocks with their reads, and uploads."""

from __future__ import annotations

from typing import Final

from gt_dispatcher.directory import Tensor
from gt_dispatcher.emission import Emission
from gt_dispatcher.events import Unwatch
from gt_dispatcher.fetches import PendingFetch
from gt_dispatcher.interpreter import Block, Interpreter
from gt_dispatcher.sessions import Session
from gt_dispatcher.state import CoreState
from gt_protocol.dtypes import ITEM_SIZES
from gt_protocol.errors import GTError, MalformedFrame
from gt_protocol.failure import Failure, FailureKind, describe_operand
from gt_protocol.messages import BlockMessage, ClientPayload, FetchFailed, Upload
from gt_protocol.programs import StoreShard
from gt_protocol.wire import Frames, total_bytes

#: Reads that one block may end with.
MAX_READS: Final = 64


class ClientDesk:
    """Serves sessions.

    Args:
        state: The core's state.
    """

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def handle(self, session: Session, sequence: int, payload: ClientPayload, frames: Frames) -> None:
        """Carries out one payload.

        Raises:
            ProtocolError: It breaks the protocol.
        """
        if isinstance(payload, BlockMessage):
            orders = self._block(session, sequence, payload, frames)
        else:
            orders = self._upload(session, sequence, payload, frames)
        session.expect(sequence, orders)

    def close(self, session: Session, reason: str) -> None:
        """Ends a session and frees what it has."""
        state = self._state
        state.sessions.pop(session.number, None)
        state.by_identity.pop(session.identity, None)
        state.fetches.drop_session(session.number)
        if session.address is not None:
            state.by_address.pop(session.address, None)
            state.effects.append(Unwatch(session.address))
        home = session.regions.home
        worker = state.pool.get(home.workers[0]) if home is not None else None
        if worker is not None:
            worker.homes -= 1
        emission = Emission(state.pool, session.number, 0)
        for tensor in list(session.directory.tensors.values()):
            for layout, register in session.directory.remove(tensor):
                emission.free(layout, register)
        emission.flush()
        state.note("session ended", session=session.number, reason=reason, sessions=len(state.sessions))

    def _block(
        self, session: Session, sequence: int, message: BlockMessage, frames: Frames
    ) -> dict[int, tuple[bytes, int]]:
        if len(frames) != 1:
            raise MalformedFrame(f"a block has one body, not {len(frames)}")
        if len(message.bindings.reads) > MAX_READS:
            raise MalformedFrame(f"a block has at most {MAX_READS} reads, not {len(message.bindings.reads)}")
        state = self._state
        listing = state.listings.get(bytes(frames[0]))
        emission = Emission(state.pool, session.number, sequence, message.bindings.seed)
        block = Block(sequence, listing, message.bindings)
        interpreter = Interpreter(block, session.directory, session.regions, state.keeper, emission, state.new_register)
        try:
            interpreter.run()
            for request, tensor in message.bindings.reads:
                self._read(session, sequence, request, tensor, emission)
        finally:
            emission.flush()
        state.instructions += listing.instructions
        state.pool.retire(state.keeper.plans.retire())
        return emission.last_orders

    def _upload(self, session: Session, sequence: int, upload: Upload, frames: Frames) -> dict[int, tuple[bytes, int]]:
        check_upload(upload, frames, session.directory.tensors)
        state, regions = self._state, session.regions
        emission = Emission(state.pool, session.number, sequence)
        try:
            if regions.home is None:
                raise GTError("no worker has joined yet: wait until the cluster is Ready")
            layout, cuts = state.planner.upload(upload.meta, regions.current, regions.home)
        except GTError as error:
            failure = Failure(
                FailureKind.SHARDING if regions.current else FailureKind.NO_WORKER,
                str(error),
                "upload",
                (describe_operand(upload.meta.dtype, upload.meta.shape),),
                sequence,
                0,
                regions.signal,
            )
            session.directory.tensors[upload.tensor] = Tensor.failed(upload.tensor, failure)
            return {}
        tensor = Tensor(upload.tensor, layout, state.new_register())
        session.directory.tensors[upload.tensor] = tensor
        meta = upload.meta
        for index, cut in cuts.items():
            worker = state.pool.get(index)
            if worker is not None:
                order = StoreShard(tensor.register, meta.shape, meta.strides, meta.dtype, cut)
                emission.note(worker, worker.order(order, frames))
        return emission.last_orders

    def _read(self, session: Session, sequence: int, request: int, number: int, emission: Emission) -> None:
        """Has the workers that hold a tensor send it, or tells the client why there is nothing to send."""
        state = self._state
        tensor = session.directory.find(number)
        try:
            if tensor.layout is not None and tensor.layout.partial:
                state.keeper.reduce(tensor, emission)
        except GTError as error:
            session.answer(FetchFailed(request, Failure(FailureKind.OPERATOR, str(error), "read", block=sequence)), [])
            return
        if tensor.failure is not None or tensor.layout is None:
            failure = tensor.failure or Failure(FailureKind.UNKNOWN_TENSOR, f"tensor {number} has no value")
            session.answer(FetchFailed(request, failure), [])
            return
        axis, workers = state.planner.parts(tensor.layout)
        pending = state.fetches.add(PendingFetch(session.number, request, axis, workers))
        for index in workers:
            emission.read(index, pending, tensor.register)


def check_upload(upload: Upload, frames: Frames, known: dict[int, Tensor]) -> None:
    """Checks an upload.

    Raises:
        MalformedFrame: Its id is taken, or its bytes do not fit its shape.
    """
    meta = upload.meta
    if upload.tensor in known:
        raise MalformedFrame(f"tensor {upload.tensor} is there already")
    if meta.dtype not in ITEM_SIZES or len(meta.shape) != len(meta.strides) or any(size < 0 for size in meta.shape):
        raise MalformedFrame(f"an upload of {meta}")
    expected = ITEM_SIZES[meta.dtype]
    for size in meta.shape:
        expected *= size
    if total_bytes(frames) != expected:
        raise MalformedFrame(f"an upload of {total_bytes(frames)} bytes for {expected}")
