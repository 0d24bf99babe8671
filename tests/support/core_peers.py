"""Peers that talk to a dispatcher core in one process, over links like real ones, with a clock of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gt_dispatcher.core import Core
from gt_dispatcher.events import Address, Effect, PeerExited, Received, Role, Send, Tick
from gt_dispatcher.state import CoreSettings
from gt_protocol.blocks import Bindings, Call, encode_body
from gt_protocol.link import Link
from gt_protocol.messages import (
    PROTOCOL_VERSION,
    BlockMessage,
    ClientHello,
    Control,
    Goodbye,
    Heartbeat,
    Refused,
    Sequenced,
    Welcome,
    WorkerHello,
)
from gt_protocol.operators import operator_table
from gt_protocol.wire import (
    CLIENT_ANSWERS,
    CLIENT_PAYLOADS,
    WORKER_ANSWERS,
    WORKER_ORDERS,
    Frames,
    PayloadCodec,
    decode_control,
    encode_control,
)

TABLE = operator_table()
_routing = itertools.count(1)


class World:
    """A core, its peers, and the time."""

    def __init__(self, workers: int = 1, **settings: object) -> None:
        self.core = Core(CoreSettings(workers=workers, epoch=77, **settings), TABLE)  # type: ignore[arg-type]
        self.now = 100.0
        self.peers: dict[Address, Peer] = {}
        self.effects: list[Effect] = []

    def give(self, sender: Address, frames: Frames) -> None:
        self._apply(self.core.handle(Received(sender, frames, self.now)))

    def exit(self, peer: Peer) -> None:
        self._apply(self.core.handle(PeerExited(peer.address, self.now)))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self._apply(self.core.handle(Tick(self.now)))

    def _apply(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Send) and effect.to in self.peers:
                self.peers[effect.to].take(effect.frames)


class Peer:
    """One side of a link to the core."""

    def __init__(self, world: World, role: Role, outgoing: PayloadCodec, incoming: PayloadCodec) -> None:
        self.world = world
        self.outgoing, self.incoming = outgoing, incoming
        self.link = Link(64)
        self.role = role
        self.inbox: list[tuple[object, Frames]] = []
        self.controls: list[Control] = []
        self.reconnect()

    def reconnect(self) -> None:
        """Has a new connection; what flew over the old one is lost."""
        if hasattr(self, "address"):
            self.world.peers.pop(self.address, None)
        self.address = Address(self.role, b"%d" % next(_routing))
        self.world.peers[self.address] = self

    def control(self, message: Control) -> None:
        self.world.give(self.address, [encode_control(message)])

    def send(self, payload: object, frames: Sequence[bytes] = ()) -> None:
        self.world.give(self.address, self.link.send(self.outgoing.encode(payload), list(frames)))

    def heartbeat(self) -> None:
        self.control(Heartbeat(*self.link.announcement()))

    def take(self, frames: Frames) -> None:
        message = decode_control(frames)
        self.controls.append(message)
        if isinstance(message, Sequenced):
            if self.link.receive(message.sequence, message.received, message.limit):
                self.inbox.append((self.incoming.decode(message.payload), frames[1:]))
                self.link.finish(message.sequence)
        elif isinstance(message, Heartbeat):
            self.link.acknowledge(message.received, message.limit)
        elif isinstance(message, Welcome):
            for again in self.link.resume(message.received, message.limit):
                self.world.give(self.address, again)

    def of_type(self, kind: type) -> list:
        """Payloads of a kind that came in."""
        return [payload for payload, _ in self.inbox if isinstance(payload, kind)]

    @property
    def refusal(self) -> Refused | None:
        return next((message for message in reversed(self.controls) if isinstance(message, Refused)), None)


class Client(Peer):
    """A client."""

    def __init__(self, world: World, *, identity: bytes = b"", **hello: object) -> None:
        super().__init__(world, Role.CLIENT, CLIENT_PAYLOADS, CLIENT_ANSWERS)
        self.identity = identity or b"%016d" % next(_routing)
        self.say_hello(**hello)

    def say_hello(self, **changes: object) -> None:
        fields = {
            "protocol": PROTOCOL_VERSION, "cluster_uid": "", "session": self.identity, "epoch": 0,
            "received": self.link.received, "operators": TABLE.digest,
        }  # fmt: skip
        self.control(ClientHello(**{**fields, **changes}))  # type: ignore[arg-type]

    def block(self, calls: Sequence[Call], stream: Sequence[int], *, lost: bool = False, **bindings: object) -> None:
        fields: dict = {"base": 1, "inputs": [], "floats": [], "ints": [], "late_frees": []}
        fields.update(bindings)
        body = encode_body(calls, [], stream, len(fields["inputs"]))
        message = BlockMessage(Bindings(**fields))
        if lost:
            self.link.send(self.outgoing.encode(message), [body])
        else:
            self.send(message, [body])

    def read(self, request: int, tensor: int, **options: bool) -> None:
        self.block([], [], base=1 << 40, reads=[(request, tensor)], **options)

    def goodbye(self) -> None:
        self.control(Goodbye())


class Worker(Peer):
    """A worker that takes orders and does nothing about them by itself."""

    def __init__(self, world: World, index: int = 0, **hello: object) -> None:
        super().__init__(world, Role.WORKER, WORKER_ANSWERS, WORKER_ORDERS)
        self.index = index
        self.incarnation = b"%016d" % next(_routing)
        self.say_hello(**hello)

    def say_hello(self, **changes: object) -> None:
        fields = {
            "protocol": PROTOCOL_VERSION, "cluster_uid": "", "incarnation": self.incarnation, "epoch": 0,
            "received": self.link.received, "operators": TABLE.digest, "index": self.index, "device": "cpu",
            "store": f"127.0.0.1:{9000 + self.index}",
        }  # fmt: skip
        self.control(WorkerHello(**{**fields, **changes}))  # type: ignore[arg-type]
