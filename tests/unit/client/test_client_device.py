"""The device as a program meets it: errors, random numbers, printing, source lines, backward passes that fail."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
import torch
from loopback import Loopback, RemoteFailure
from torch import nn
from torch.utils.checkpoint import checkpoint

from gt import metadata
from gt.blocks import builder
from gt.errors import UnsupportedError
from gt.metadata import MetaTable
from gt.sources import format_source


def test_pytorch_knows_the_device(fleet: Loopback) -> None:
    module: Any = torch.get_device_module("fleet")
    assert module.is_available()
    assert (module.device_count(), module.current_device()) == (1, 0)
    assert torch.ones(1, device="fleet").is_fleet
    assert torch.ones(1).fleet().device == torch.device("fleet", 0)
    assert str(torch.accelerator.current_accelerator()) == "fleet"
    module.synchronize()
    assert len(fleet.fetched) == 1
    with module.device(0), pytest.raises(RuntimeError, match="there is one fleet"):
        module.set_device(1)
    with pytest.raises(RuntimeError, match="there is one fleet"):
        torch.ones(1, device="fleet:1")


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: y @ x,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: y.add_(x),
        lambda x, y: torch.tensor(1.0).add_(x.sum()),
        lambda x, y: nn.functional.linear(x, y),
        lambda x, y: torch.equal(x, y),
    ],
)
def test_tensors_of_the_cpu_do_not_mix(mix: Any, fleet: Loopback) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.ones(3, 3).to("fleet"), torch.ones(3, 3))


def test_wrong_calls_fail_where_they_are_made(fleet: Loopback) -> None:
    x = torch.ones(2, 3).to("fleet")
    for wrong in (
        lambda: x @ x,
        lambda: x.view(4),
        lambda: x + torch.ones(4).to("fleet"),
        lambda: x[5],
        lambda: x.sum(7),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            wrong()
    assert x.sum().item() == 6


def test_what_cannot_be_expressed_says_what_to_do(fleet: Loopback) -> None:
    x = torch.ones(2, 2).to("fleet")
    with pytest.raises(UnsupportedError, match=r"torch\.manual_seed"):
        torch.randn(2, device="fleet", generator=torch.Generator())
    with pytest.raises(UnsupportedError, match=r"torch\.manual_seed"):
        x.normal_(generator=torch.Generator())
    with pytest.raises(UnsupportedError, match=r'value.to\("fleet"\)'):
        x.data = torch.ones(2)
    with pytest.raises(UnsupportedError, match="compute it on the CPU"):
        torch.eye(2).to_sparse().to("fleet")
    with pytest.raises(UnsupportedError, match=r"torch\.compile"):
        x.__tensor_flatten__()
    with pytest.raises(UnsupportedError, match="of that shape, or an empty one"):
        torch.add(x, x, out=torch.ones(3, device="fleet"))


def test_an_error_is_a_value_that_follows_the_data(fleet: Loopback) -> None:
    bad = torch.ones(3).to("fleet")[torch.tensor([7])] * 2
    good = torch.ones(3).to("fleet") * 2
    with pytest.raises(RemoteFailure, match="out of bounds"):
        bad.sum().item()
    assert good.sum().item() == 6


def test_each_instruction_knows_its_line(fleet: Loopback) -> None:
    x = torch.ones(2, 3).to("fleet")
    layer = nn.Sequential(nn.Linear(3, 2)).to("fleet")
    builder.flush()
    start = sys._getframe().f_lineno
    y = x * 2
    z = layer(y)
    z.sum().backward()
    builder.flush()
    lines = {format_source(source) for source in fleet.blocks[-1].sources}
    assert lines == {f"{__file__}:{start + k}, in test_each_instruction_knows_its_line" for k in (1, 2, 3)}
    assert format_source(None) == ""


def test_random_numbers_follow_seed_and_counter(fleet: Loopback) -> None:
    def draw() -> list[Any]:
        x = torch.randn(40, device="fleet")
        return [
            x,
            torch.rand(2, device="fleet"),
            nn.functional.dropout(x, 0.5),
            torch.empty(3, device="fleet").normal_(),
        ]

    torch.manual_seed(7)
    first, second = draw(), draw()
    torch.manual_seed(7)
    again = draw()
    for one, other, later in zip(first, again, second, strict=True):
        assert torch.equal(one, other)
        assert not torch.equal(one, later)
    bindings = [block.bindings for block in fleet.blocks]
    assert {binding.seed for binding in bindings if binding.counter} <= {7}


def test_random_state_is_kept_and_restored(fleet: Loopback) -> None:
    module: Any = torch.get_device_module("fleet")
    torch.rand(3, device="fleet")
    state = module.get_rng_state()
    x = torch.rand(3, device="fleet")
    module.set_rng_state(state)
    assert torch.equal(x, torch.rand(3, device="fleet"))
    with pytest.raises(ValueError, match="16 bytes"):
        module.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.ReLU()).to("fleet")
    inputs = torch.ones(2, 4).to("fleet").requires_grad_()
    torch.manual_seed(3)
    net(inputs).sum().backward()
    assert inputs.grad is not None
    plain, inputs.grad = inputs.grad, None
    torch.manual_seed(3)
    checkpoint(net, inputs, use_reentrant=False, preserve_rng_state=True).sum().backward()
    assert torch.allclose(plain, inputs.grad)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.arange(6.0).view(2, 3).to(d),
        lambda d: torch.tensor(3).to(d),
        lambda d: torch.linspace(0, 1, 3, dtype=torch.float64).to(d),
        lambda d: torch.tensor([True]).to(d),
        lambda d: torch.empty(0, 3).to(d),
        lambda d: torch.empty(0, dtype=torch.int64).to(d),
        lambda d: torch.ones(2).to(d).requires_grad_(),
        lambda d: torch.ones(2).to(d).requires_grad_() * 2,
        lambda d: torch.arange(30000).view(100, 300).to(d),
        lambda d: torch.arange(4000.0).view(2, 2, 1000).to(d),
        lambda d: nn.Parameter(torch.ones(2).to(d)),
        lambda d: torch.tensor([1 + 2j]).to(d),
    ],
)
def test_is_printed_like_any_other(make: Any, fleet: Loopback) -> None:
    def words(text: str) -> list[str]:
        """Numbers, and the remarks behind them in any order: PyTorch's own differs between devices."""
        body, _, remarks = text.replace("device='fleet:0'", "").rpartition("]" if "]" in text else "(")
        return body.split() + sorted(part for part in remarks.replace(")", "").replace(",", " ").split() if part)

    assert words(repr(make("fleet"))) == words(repr(make("cpu")))
    assert "device='fleet:0'" in repr(make("fleet"))
    assert fleet.tensors == {} or max(value.numel() for value in fleet.tensors.values()) <= 30000


def test_printing_fetches_only_what_is_shown(fleet: Loopback) -> None:
    fleet.fetched.clear()
    repr(torch.zeros(1000, 1000, device="fleet"))
    assert fleet.fetched == [49]


class Boom(Exception):
    """Raised on purpose."""


def raise_boom(*_: Any) -> Any:
    raise Boom("on purpose")


def test_an_error_in_a_backward_pass_reaches_the_caller(fleet: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3).to("fleet").requires_grad_()
    y = (x * 2).tanh()
    y.register_hook(raise_boom)
    with pytest.raises(Boom, match="on purpose"):
        y.sum().backward()
    loss = (x * 2).exp().sum()
    monkeypatch.setattr(builder, "_lock", BrokenLock())
    monkeypatch.setattr("gt.dispatch._emit", raise_boom)
    with pytest.raises(Boom, match="on purpose"):
        loss.backward()
    with pytest.raises(Boom, match="on purpose"):
        torch.autograd.grad((x.detach().requires_grad_() * 1).sum(), x)
    monkeypatch.undo()
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3, 3]


class BrokenLock:
    """Nothing may be emitted while this is in place."""

    def __enter__(self) -> None:
        raise Boom

    def __exit__(self, *_: object) -> None:
        """Never reached."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that strikes within a finalizer
def test_ctrl_c_in_a_program_leaves_everything_usable(fleet: Loopback) -> None:
    """Interrupts arrive at many points of emission; whatever was emitted before and after must still be right."""
    x = torch.zeros(2).to("fleet")
    send, struck = fleet.send_block, []

    def send_as_a_whole(*args: Any) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        try:
            send(*args)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def interrupt(*_: object) -> None:
        struck.append(True)
        raise KeyboardInterrupt

    fleet.send_block = send_as_a_whole  # type: ignore[method-assign]  # a session takes a block or does not
    previous = signal.signal(signal.SIGALRM, interrupt)
    y = x
    try:
        for k in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + k * 0.00001)
                while len(struck) == k:
                    y = x + 1
                    y = y * 2
                    y.sub_(1)
            except KeyboardInterrupt:
                assert len(struck) == k + 1
            assert (x + 3).tolist() == [3, 3]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    del y
    builder.flush()
    assert len(fleet.tensors) <= 1 + len(struck)


def test_interned_metadata_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MAX_INTERNED", 4)
    table = MetaTable()
    first = table.get((1,), (1,), 0, torch.float32)
    assert table.get((1,), (1,), 0, torch.float32) is first
    for size in range(2, 20):
        table.pristine(table.get((size,), (1,), 0, torch.float32))
    assert len(table._known) <= 4
    assert len(table._pristine) <= 4


def test_caches_of_calls_are_bounded(fleet: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gt.resolve.MAX_ENTRIES", 8)
    monkeypatch.setattr("gt.blocks.encoding.MAX_REMEMBERED", 64)
    x = torch.zeros(2).to("fleet")
    for k in range(100):
        x = x + (k + 12345)
        if k % 7 == 0:
            assert x.tolist() == [k * (k + 1) / 2 + 12345 * (k + 1)] * 2
    cache: Any = torch.ops.aten.add.Tensor._gt_cache  # type: ignore[attr-defined]  # the device's own attribute
    assert len(cache) <= 8
