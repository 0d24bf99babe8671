"""Each rule, with each operand split along each axis, on even, uneven and empty shards, against the whole.

A case is a program, forward and backward where it has one, and its operands. What it may gather is part of the case:
a rule that silently stops applying is found here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from gt_protocol.placements import Shard
from tests.support.planner.capture import Capture, Recording
from tests.support.planner.client_operators import client_operators
from tests.support.planner.fleet import Fleet
from tests.support.planner.single import OPERATORS

aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """A program and its operands.

    Attributes:
        name: What it is called.
        run: The program.
        shapes: Shapes of floating operands, whose gradients are taken as well.
        others: Makes further operands.
        free: Axes of the first operand along which it can be split without a fallback.
        backward: Whether there are gradients.
    """

    name: str
    run: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]
    others: Callable[[], tuple[Tensor, ...]] = tuple
    free: tuple[int, ...] = ()
    backward: bool = True


def integers(high: int, *shape: int) -> Callable[[], tuple[Tensor, ...]]:
    """Makes one operand of integers."""
    return lambda: (torch.randint(high, shape),)


def masks(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    """Makes one operand of truth values."""
    return lambda: (torch.rand(shape) < 0.5,)


def attend(causal: bool) -> Callable[..., Tensor]:
    """Fused attention, with a bias if there is a fourth operand."""
    return lambda q, k, v, bias=None: functional.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)


QKV = ((5, 3, 4, 6), (5, 3, 7, 6), (5, 3, 7, 6))

CASES = (
    # Element by element.
    Case("add broadcast", lambda a, b: a + b, ((5, 3), (3,)), free=(0, 1)),
    Case("mul of a column", lambda a, b: a * b, ((5, 3), (5, 1)), free=(0, 1)),
    Case("where", lambda a, b, m: torch.where(m, a, b), ((5, 3), (5, 3)), masks(5, 3), free=(0, 1)),
    Case("gelu", functional.gelu, ((5, 3),), free=(0, 1)),
    Case("elu", functional.elu, ((5, 3),), free=(0, 1)),
    Case("leaky relu", functional.leaky_relu, ((5, 3),), free=(0, 1)),
    Case("softplus", functional.softplus, ((5, 3),), free=(0, 1)),
    Case("hardswish", functional.hardswish, ((5, 3),), free=(0, 1)),
    Case("prelu", functional.prelu, ((5, 3), (3,)), free=(0, 1)),
    Case("clamp", lambda a: a.clamp(-0.5, 0.5), ((5, 3),), free=(0, 1)),
    Case("cast", lambda a: a.double() + 1, ((5, 3),), free=(0, 1)),
    Case("masked fill", lambda a, m: a.masked_fill(m, -1.0), ((5, 3),), masks(5, 3), free=(0, 1)),
    Case(
        "like",
        lambda a: (torch.zeros_like(a), torch.full_like(a, 2.0), a.new_ones(5, 3), a.new_zeros(2)),
        ((5, 3),), free=(0, 1), backward=False,
    ),
    # In place.
    Case("add in place", lambda a, b: a.add_(b, alpha=0.5), ((5, 3), (3,)), free=(0, 1), backward=False),
    Case(
        "addcdiv in place",
        lambda a, b, c: a.addcdiv_(b, c, value=0.1), ((5, 3), (5, 3), (5, 3)), free=(0, 1), backward=False,
    ),
    Case("lerp in place", lambda a, b: a.lerp_(b, 0.1), ((5, 3), (5, 3)), free=(0, 1), backward=False),
    Case("copy in place", lambda a, b: a.copy_(b), ((5, 3), (5, 3)), free=(0, 1), backward=False),
    Case("fill in place", lambda a: a.fill_(2.0), ((5, 3),), free=(0, 1), backward=False),
    Case("write through a view", lambda a: (a.t()[1:].mul_(2.0), a + 1), ((5, 3),), free=(0,), backward=False),
    Case("write through a cut", lambda a: (a[1:4].mul_(2.0), a + 1), ((5, 3),), backward=False),
    Case(
        "index fill in place",
        lambda a: (a.index_fill_(0, torch.tensor([0, 4]), 3.0), a + 1), ((5, 3),), backward=False,
    ),
    Case("out", lambda a, b: torch.add(a, a, out=b), ((5, 3), (5, 3)), free=(0, 1), backward=False),
    # Lists.
    Case(
        "foreach",
        lambda a, b, c: torch._foreach_add_([a, b], [c, c], alpha=2),
        ((5, 3), (5, 3), (5, 3)), free=(0, 1), backward=False,
    ),
    Case(
        "foreach numbers",
        lambda a, b: torch._foreach_mul([a, b], [2.0, 3.0]), ((5, 3), (4,)), free=(0, 1), backward=False,
    ),
    Case("foreach norm", lambda a, b: torch._foreach_norm([a, b]), ((5, 3), (4,)), backward=False),
    # Views.
    Case("flatten", lambda a: a.view(5, -1) * 2, ((5, 3, 4),), free=(0, 1)),
    Case("unflatten", lambda a: a.view(4, 2, 3) * 2, ((8, 3),), free=(1,)),
    Case("permute", lambda a: a.permute(2, 0, 1) * 2, ((5, 3, 4),), free=(0, 1, 2)),
    Case("squeeze", lambda a: a.squeeze() * 2, ((5, 1, 3),), free=(0, 2)),
    Case("unsqueeze", lambda a: a.unsqueeze(1) * 2, ((5, 3),), free=(0, 1)),
    Case("expand", lambda a: a.expand(4, 5, 3) * 2, ((5, 3),), free=(0, 1)),
    Case("select", lambda a: a[:, 1] * 2, ((5, 3, 4),), free=(0, 2)),
    Case("slice", lambda a: a[:, 1:] * 2, ((5, 3, 4),), free=(0, 2)),
    Case("split", lambda a: [part * 2 for part in a.split(2, 1)], ((5, 3),), free=(0,)),
    Case("unbind", lambda a: [part * 2 for part in a.unbind(1)], ((5, 3),), free=(0,)),
    Case("diagonal", lambda a: a.diagonal(0, 1, 2) * 2, ((5, 3, 4),)),
    Case("as complex", lambda a: torch.view_as_complex(a), ((5, 3, 2),), free=(0, 1), backward=False),
    # Products.
    Case("mm", torch.mm, ((5, 3), (3, 4)), free=(0, 1)),
    Case("bmm", torch.bmm, ((5, 3, 2), (5, 2, 4)), free=(0, 1, 2)),
    Case("addmm", torch.addmm, ((4,), (5, 3), (3, 4)), free=(0,)),
    Case("matmul", torch.matmul, ((5, 2, 3), (5, 3, 4)), free=(0, 1, 2)),
    Case("linear", functional.linear, ((5, 2, 3), (4, 3), (4,)), free=(0, 1, 2)),
    Case("linear of rows", functional.linear, ((5, 3), (4, 3)), free=(0, 1)),
    Case(
        "convolution",
        lambda x, w, b: functional.conv2d(x, w, b, padding=1), ((5, 4, 6, 6), (3, 4, 3, 3), (3,)), free=(0, 1),
    ),
    Case(
        "grouped convolution",
        lambda x, w: functional.conv2d(x, w, groups=2), ((5, 4, 6, 6), (4, 2, 3, 3)), free=(0,),
    ),
    Case("transposed convolution", functional.conv_transpose2d, ((5, 4, 6, 6), (4, 3, 3, 3)), free=(0, 1)),
    Case(
        "convolution of channels last",
        lambda x, w: functional.conv2d(x.contiguous(memory_format=torch.channels_last), w),
        ((5, 4, 6, 6), (3, 4, 3, 3)), free=(0, 1),
    ),
    # Reductions.
    Case("sum", torch.sum, ((5, 3),), free=(0, 1)),
    Case("sum over axes", lambda a: a.sum((0, 2), keepdim=True), ((5, 3, 4),), free=(0, 1, 2)),
    Case("mean", torch.mean, ((5, 3),), free=(0, 1)),
    Case("mean over axes", lambda a: a.mean((0, -1)), ((5, 3, 4),), free=(0, 1, 2)),
    Case("variance", lambda a: a.var(1), ((5, 3, 4),), free=(0, 2)),
    Case("maximum", lambda a: a.max(1), ((5, 3, 4),), free=(0, 2), backward=False),
    Case("argmax", lambda a: a.argmax(1), ((5, 3),), free=(0,), backward=False),
    Case("logsumexp", lambda a: a.logsumexp(1, keepdim=True), ((5, 3),), free=(0,)),
    Case("any and all", lambda m: (m.any(), m.all(), m.any(1)), (), masks(5, 3), free=(0,), backward=False),
    Case(
        "accuracy",
        lambda a, t: (a.argmax(1) == t).float().mean(), ((5, 3),), integers(3, 5), free=(0,), backward=False,
    ),
    # Along an axis.
    Case("softmax", lambda a: a.softmax(1), ((5, 3, 4),), free=(0, 2)),
    Case("cumulative sum", lambda a: a.cumsum(1), ((5, 3, 4),), free=(0, 2)),
    Case("sort", lambda a: a.sort(1), ((5, 3),), free=(0,), backward=False),
    Case("topk", lambda a: a.topk(2, 1), ((5, 3),), free=(0,), backward=False),
    Case("roll", lambda a: a.roll(1, 1), ((5, 3),), free=(0,)),
    Case("lower triangle", torch.tril, ((5, 3, 3),), free=(0,)),
    Case("pad", lambda a: functional.pad(a, (1, 2)), ((5, 3),), free=(0,)),
    Case("cat", lambda a, b: torch.cat([a, b], 1), ((5, 3), (5, 2)), free=(0,)),
    Case("stack", lambda a, b: torch.stack([a, b], 1), ((5, 3), (5, 3)), free=(0, 1)),
    Case("gather", lambda a, i: a.gather(1, i), ((5, 3),), integers(3, 5, 2), free=(0,)),
    Case("index", lambda a, i: a[i], ((5, 3),), integers(5, 7), free=(1,), backward=False),
    Case("index select", lambda a, i: a.index_select(0, i), ((5, 3),), integers(5, 7), free=(1,), backward=False),
    Case("repeat", lambda a: a.repeat(2, 1, 3), ((5, 3),), free=(0,), backward=False),
    # Layers.
    Case("embedding", lambda w, i: functional.embedding(i, w), ((9, 4),), integers(9, 5, 3), free=(1,)),
    Case(
        "layer norm",
        lambda a, w, b: functional.layer_norm(a, (3, 4), w, b), ((5, 2, 3, 4), (3, 4), (3, 4)), free=(0, 1),
    ),
    Case("group norm", lambda a, w, b: functional.group_norm(a, 2, w, b), ((6, 4, 3), (4,), (4,)), free=(0,)),
    Case("max pooling", lambda a: functional.max_pool2d(a, 2), ((5, 6, 4, 4),), free=(0, 1)),
    Case("average pooling", lambda a: functional.avg_pool2d(a, 2), ((5, 6, 4, 4),), free=(0, 1)),
    Case("adaptive pooling", lambda a: functional.adaptive_avg_pool2d(a, 2), ((5, 6, 4, 4),), free=(0, 1)),
    Case(
        "resampling",
        lambda a: functional.interpolate(a, scale_factor=2, mode="bilinear"), ((5, 6, 4, 4),), free=(0, 1),
    ),
    Case("attention", attend(causal=False), QKV, free=(0,)),
    Case("causal attention", attend(causal=True), ((5, 3, 4, 6),) * 3, free=(0,)),
    Case("attention with a bias", attend(causal=False), (*QKV, (3, 4, 7)), free=(0,)),
    # Losses.
    Case("squared error", functional.mse_loss, ((5, 3), (5, 3)), free=(0, 1)),
    Case(
        "sum of squared errors",
        lambda a, b: functional.mse_loss(a, b, reduction="sum"), ((5, 3), (5, 3)), free=(0, 1),
    ),
    Case("squared errors", lambda a, b: functional.mse_loss(a, b, reduction="none"), ((5, 3), (5, 3)), free=(0, 1)),
    Case("absolute error", functional.l1_loss, ((5, 3), (5, 3)), free=(0, 1)),
    Case("smooth error", functional.smooth_l1_loss, ((5, 3), (5, 3)), free=(0, 1)),
    Case("Huber loss", functional.huber_loss, ((5, 3), (5, 3)), free=(0, 1)),
    Case(
        "binary cross entropy",
        lambda a, b: functional.binary_cross_entropy(a.sigmoid(), b.sigmoid().detach()), ((5, 3), (5, 3)), free=(0, 1),
    ),
    Case(
        "binary cross entropy with logits",
        lambda a, b: functional.binary_cross_entropy_with_logits(a, b.sigmoid().detach()),
        ((5, 3), (5, 3)), free=(0, 1),
    ),
    Case("cross entropy", functional.cross_entropy, ((5, 3),), integers(3, 5), free=(0,)),
    Case(
        "cross entropy that ignores",
        lambda a, t: functional.cross_entropy(a, t, ignore_index=1), ((7, 3),), integers(3, 7), free=(0,),
    ),
    Case(
        "cross entropy with weights",
        lambda a, t: functional.cross_entropy(a, t, torch.tensor([1.0, 2.0, 0.5])),
        ((5, 3),), integers(3, 5), free=(0,),
    ),
    Case(
        "smoothed cross entropy",
        lambda a, t: functional.cross_entropy(a, t, label_smoothing=0.1), ((5, 3),), integers(3, 5), free=(0,),
    ),
    Case(
        "cross entropy of each",
        lambda a, t: functional.cross_entropy(a, t, reduction="none"), ((5, 3),), integers(3, 5), free=(0,),
    ),
    Case("cross entropy of pixels", functional.cross_entropy, ((5, 3, 4, 4),), integers(3, 5, 4, 4), free=(0,)),
)  # fmt: skip


def captured(case: Case) -> Recording:
    """What a case does, with its operands named 0, 1, ..."""
    torch.manual_seed(len(case.name))
    floating = [torch.randn(shape).requires_grad_(case.backward) for shape in case.shapes]
    operands = [*floating, *case.others()]
    capture = Capture(OPERATORS)
    for position, tensor in enumerate(operands):
        capture.name(str(position), tensor)
    with capture, client_operators(capture):
        result = case.run(*operands)
        if case.backward:
            results = result if isinstance(result, list | tuple) else [result]
            torch.stack([(tensor * 1.5).sum() for tensor in results if tensor.requires_grad]).sum().backward()
    return capture.recording


def splits() -> list[object]:
    """Every case with every axis of every operand."""
    made = []
    for case in CASES:
        shapes = [*case.shapes, *[tuple(tensor.shape) for tensor in case.others()]]
        for operand, shape in enumerate(shapes):
            for axis in range(len(shape)):
                made.append(pytest.param(case, operand, axis, id=f"{case.name}-{operand}-{axis}"))
    return made


@pytest.mark.parametrize(("case", "operand", "axis"), splits())
def test_a_split_operand_changes_no_value(case: Case, operand: int, axis: int) -> None:
    recording = captured(case)
    for workers in (2, 3, 4):
        report = Fleet(OPERATORS, workers).replay(recording, {str(operand): Shard(axis)})
        if operand == 0 and axis in case.free and workers == 2:
            assert not report.fallbacks
