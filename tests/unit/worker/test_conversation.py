"""The worker's side of the conversation with the dispatcher, without a socket."""

from __future__ import annotations

import pytest

from gt_protocol.errors import ProtocolError
from gt_protocol.link import Link
from gt_protocol.messages import RefusalCode, Refused, Welcome
from gt_worker.conversation import Answer, Conversation, Introduction


def new() -> Conversation:
    """A conversation that has not begun."""
    return Conversation(Introduction("uid", "digest", 3, "cpu", "127.0.0.1:1", 9))


def welcome(epoch: int = 5, received: int = 0, limit: int = 64) -> Welcome:
    """A dispatcher's welcome."""
    return Welcome(epoch, "uid", received, limit, 1, 1.0, 10.0)


def test_a_first_hello_begins_anew() -> None:
    talk = new()
    hello = talk.hello()
    assert (hello.epoch, hello.received, hello.index, hello.pid) == (0, 0, 3, 9)
    assert talk.welcome(welcome(), 0.0) == (True, [])
    assert talk.welcomed


def test_the_same_epoch_resumes_and_sends_again() -> None:
    talk = new()
    talk.welcome(welcome(), 0.0)
    dispatcher = Link(64)
    dispatcher.acknowledge(0, 64)
    dispatcher.send(b"\x01")
    assert talk.take(1, 0, 64)
    talk.finish(1)
    frames = [talk.send(b"\x01", []), talk.send(b"\x02", [])]
    hello = talk.hello()
    assert (hello.epoch, hello.received) == (5, 1)
    assert not talk.welcomed
    fresh, again = talk.welcome(welcome(received=1), 1.0)
    assert not fresh
    assert again == frames[1:]


def test_another_epoch_begins_anew() -> None:
    talk = new()
    talk.welcome(welcome(), 0.0)
    talk.take(1, 0, 64)
    talk.finish(1)
    talk.hello()
    fresh, again = talk.welcome(welcome(epoch=6), 1.0)
    assert (fresh, again, talk.done, talk.link.received) == (True, [], 0, 0)


def test_an_order_is_acknowledged_when_it_is_worked_off() -> None:
    talk = new()
    talk.welcome(welcome(), 0.0)
    talk.take(1, 0, 64)
    talk.finish(1)
    before = talk.acknowledgement()
    talk.take(2, 0, 64)
    assert talk.acknowledgement() == before
    with pytest.raises(ProtocolError):
        talk.send(b"\x01", [])
    talk.finish(2)
    assert talk.acknowledgement() == (2, before[1] + 1)


@pytest.mark.parametrize(
    ("code", "welcomed", "answer"),
    [
        (RefusalCode.VERSION, False, Answer.GIVE_UP),
        (RefusalCode.CLUSTER, True, Answer.GIVE_UP),
        (RefusalCode.OPERATORS, False, Answer.GIVE_UP),
        (RefusalCode.UNKNOWN_PEER, True, Answer.GREET),
        (RefusalCode.UNKNOWN_PEER, False, Answer.IGNORE),
        (RefusalCode.DUPLICATE, True, Answer.IGNORE),
        (RefusalCode.DUPLICATE, False, Answer.BEGIN_ANEW),
        (RefusalCode.MALFORMED, True, Answer.BEGIN_ANEW),
        (RefusalCode.EPOCH, False, Answer.BEGIN_ANEW),
    ],
)
def test_refusals(code: str, welcomed: bool, answer: Answer) -> None:
    talk = new()
    if welcomed:
        talk.welcome(welcome(), 0.0)
    assert talk.refused(Refused(code, "why")) is answer


def test_beginning_anew_is_another_worker() -> None:
    talk = new()
    talk.welcome(welcome(), 0.0)
    before = talk.hello().incarnation
    talk.begin_anew()
    hello = talk.hello()
    assert hello.incarnation != before
    assert (hello.epoch, hello.received) == (0, 0)
