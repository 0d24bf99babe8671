"""A link delivers each message once and in order, whatever the connection does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gt_protocol.errors import ProtocolError, SequenceGap, WindowExceeded
from gt_protocol.link import Link
from gt_protocol.messages import Sequenced
from gt_protocol.wire import decode_control


def _deliver(receiver: Link, frames: list) -> bytes | None:
    message = decode_control(frames)
    assert isinstance(message, Sequenced)
    return bytes(message.payload) if receiver.receive(message.sequence, message.received, message.limit) else None


def _pair(window: int = 16) -> tuple[Link, Link]:
    sender, receiver = Link(window), Link(window)
    sender.acknowledge(0, receiver.receive_limit)
    return sender, receiver


class Network:
    """One direction that loses everything in flight when its connection breaks."""

    def __init__(self, sender: Link, receiver: Link) -> None:
        self.sender, self.receiver = sender, receiver
        self.flying: list = []
        self.delivered: list[bytes] = []

    def send(self, payload: bytes) -> None:
        if self.sender.can_send(len(payload)):
            self.flying.append(self.sender.send(payload))

    def arrive(self) -> None:
        if self.flying:
            payload = _deliver(self.receiver, self.flying.pop(0))
            if payload is not None:
                self.delivered.append(payload)
                self.receiver.finish(self.receiver.received)

    def acknowledge(self) -> None:
        self.sender.acknowledge(*self.receiver.announcement())

    def break_and_resume(self) -> None:
        self.flying = list(self.sender.resume(self.receiver.received, self.receiver.receive_limit))


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["send", "arrive", "acknowledge", "break"]), max_size=80))
def test_messages_arrive_once_and_in_order_over_breaks(steps: list[str]) -> None:
    network = Network(*_pair())
    sent = 0
    for step in steps:
        if step == "send" and network.sender.can_send():
            network.send(b"\xa4%04d" % sent)
            sent += 1
        elif step == "arrive":
            network.arrive()
        elif step == "acknowledge":
            network.acknowledge()
        elif step == "break":
            network.break_and_resume()
    network.break_and_resume()
    while network.flying:
        network.arrive()
    assert network.delivered == [b"\xa4%04d" % number for number in range(sent)]


def test_credit_follows_finished_work_not_arrival() -> None:
    sender, receiver = _pair(window=2)
    for payload in (b"\x01", b"\x02"):
        _deliver(receiver, sender.send(payload))
    sender.acknowledge(*receiver.announcement())
    assert not sender.can_send()
    with pytest.raises(WindowExceeded):
        sender.send(b"\x03")
    receiver.finish(1)
    sender.acknowledge(*receiver.announcement())
    assert sender.can_send()


def test_a_gap_an_overrun_and_a_false_acknowledgement_are_errors() -> None:
    sender, receiver = _pair(window=2)
    first, second = sender.send(b"\x01"), sender.send(b"\x02")
    with pytest.raises(SequenceGap):
        _deliver(receiver, second)
    assert _deliver(receiver, first) == b"\x01"
    assert _deliver(receiver, first) is None
    with pytest.raises(ProtocolError):
        sender.acknowledge(9, 9)
    with pytest.raises(WindowExceeded):
        Link(1).receive(1, 0, 0) and Link(0).receive(1, 0, 0)


def test_bytes_in_flight_are_bounded_but_one_message_always_passes() -> None:
    sender, receiver = Link(16, bytes_window=10), Link(16)
    sender.acknowledge(0, receiver.receive_limit)
    assert sender.can_send(100)
    sender.send(b"\x01", [bytes(100)])
    assert not sender.can_send(1)
    sender.acknowledge(1, 16)
    assert sender.unacknowledged_bytes == 0
    assert sender.can_send(100)
