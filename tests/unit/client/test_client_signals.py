"""Signals in the stream: regions, placements, and where backward work belongs."""

from __future__ import annotations

import threading

import pytest
import torch
from loopback import Loopback
from torch import nn

import gt.signal
from gt.blocks import builder
from gt.blocks.regions import Regions
from gt.errors import SignalError
from gt_protocol.sharding import parse_sharding


def regions_of(fleet: Loopback, name: str) -> set[tuple[str, ...]]:
    builder.flush()
    return {regions for regions, op in fleet.trace if op == f"aten::{name}"}


def test_a_region_holds_its_instructions(fleet: Loopback) -> None:
    x = torch.ones(3).to("fleet")
    with gt.signal.context("outer"):
        y = x + 1
        with gt.signal.context("inner"):
            y = y * 2
        y = y.relu()
    y = y.exp()
    assert regions_of(fleet, "add.Tensor") == {("outer",)}
    assert regions_of(fleet, "mul.Tensor") == {("outer", "inner")}
    assert regions_of(fleet, "relu") == {("outer",)}
    assert regions_of(fleet, "exp") == {()}
    assert fleet.regions == []


def test_an_upload_lies_in_its_region(fleet: Loopback) -> None:
    x = torch.ones(3).to("fleet")
    with gt.signal.context("stage"):
        y = torch.ones(3).to("fleet")
        z = x + y
    w = torch.ones(3).to("fleet") + z
    assert fleet.upload_regions == [(), ("stage",), ()]
    assert w.tolist() == [3, 3, 3]


def test_a_region_is_also_a_decorator_and_ends_on_errors(fleet: Loopback) -> None:
    @gt.signal.context("layer")
    def layer(x: torch.Tensor) -> torch.Tensor:
        if x.dim() > 1:
            raise ValueError
        return x + 1

    y = layer(torch.ones(2).to("fleet"))
    with pytest.raises(ValueError):
        layer(torch.ones(2, 2).to("fleet"))
    z = y * 2
    assert regions_of(fleet, "add.Tensor") == {("layer",)}
    assert regions_of(fleet, "mul.Tensor") == {()}
    assert z.tolist() == [4, 4]


def test_regions_must_nest(fleet: Loopback) -> None:
    gt.signal.enter("a")
    gt.signal.enter("b")
    with pytest.raises(SignalError, match='innermost one is "b"'):
        gt.signal.exit("a")
    gt.signal.exit("b")
    gt.signal.exit("a")
    with pytest.raises(SignalError, match="in no region"):
        gt.signal.exit("a")
    for name in ("", "x" * 513, 3):
        with pytest.raises(SignalError, match="signal's name"):
            gt.signal.enter(name)  # type: ignore[arg-type]  # the mistake under test


def test_backward_work_runs_under_the_forward_region(fleet: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder.regions, "backward", builder.regions.backward)
    rules = "version: 1\nsignals: {encoder: {workers: [0], backward: encoder_grad}, decoder: {workers: [0]}}"
    builder.regions.follow(parse_sharding(rules))
    encoder, decoder = nn.Linear(3, 4).to("fleet"), nn.Linear(4, 2).to("fleet")
    for _ in range(2):
        with gt.signal.context("encoder"):
            hidden = encoder(torch.ones(2, 3).to("fleet")).tanh()
        with gt.signal.context("decoder"):
            loss = decoder(hidden).sigmoid().sum()
        loss.backward()
    assert regions_of(fleet, "tanh") == {("encoder",)}
    assert regions_of(fleet, "tanh_backward") == {("encoder_grad",)}
    assert regions_of(fleet, "sigmoid_backward") == {("decoder",)}
    assert regions_of(fleet, "linear_backward") == {("encoder_grad",), ("decoder",)}


def test_each_thread_has_regions_of_its_own(fleet: Loopback) -> None:
    x = torch.ones(3).to("fleet")
    inside, done = threading.Event(), threading.Event()

    def work() -> None:
        with gt.signal.context("thread"):
            x.exp()
            inside.set()
            done.wait(10)
            x.log()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    x.sin()
    done.set()
    thread.join()
    x.cos()
    assert regions_of(fleet, "exp") == regions_of(fleet, "log") == {("thread",)}
    assert regions_of(fleet, "sin") == regions_of(fleet, "cos") == {()}


def test_a_tensor_and_its_gradient_are_placed(fleet: Loopback) -> None:
    x = torch.ones(2, 3).to("fleet").requires_grad_()
    y = gt.signal.tensor(x * 2, "batch", backward="batch_grad")
    (y * y).sum().backward()
    builder.flush()
    assert fleet.placed == [("batch", (2, 3)), ("batch_grad", (2, 3))]
    assert x.grad is not None
    assert x.grad.tolist() == [[8.0] * 3] * 2
    z = gt.signal.tensor(torch.empty(3, device="fleet"), "data")
    assert (z.shape, z.requires_grad) == ((3,), False)
    cpu = torch.ones(2)
    assert gt.signal.tensor(cpu, "batch") is cpu


def test_signals_change_no_result_and_bodies_repeat(fleet: Loopback) -> None:
    model = nn.Linear(3, 2).to("fleet")
    digests = []
    for _ in range(4):
        before = len(fleet.blocks)
        with gt.signal.context("layer"):
            x = gt.signal.tensor(torch.ones(2, 3).to("fleet"), "batch")
            loss = model(x).pow(2).sum()
        model.zero_grad()
        loss.backward()
        loss.item()
        digests.append(tuple(block.digest for block in fleet.blocks[before:]))
    assert len(set(digests[1:])) == 1


def test_remembered_regions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gt.blocks.regions.MAX_CHANGES", 8)
    regions = Regions()
    x = torch.ones(1, requires_grad=True)
    for k in range(50):
        regions.enter(f"r{k}")
        y = x * 2
        regions.leave(f"r{k}")
    assert len(regions._local.starts) <= 8
    assert regions._local.at(y.grad_fn._sequence_nr()) == ("r49",)
