"""Training steps of plain PyTorch models on simulated workers: all values equal the CPU's, and what moves is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, AdamW, Optimizer

from gt_dispatcher.planner.layout import Mesh
from gt_dispatcher.planner.plan import Region
from gt_protocol.placements import Placement, Replicate, Shard
from tests.support.planner.capture import Capture, Recording
from tests.support.planner.client_operators import client_operators
from tests.support.planner.fleet import Fleet, Report
from tests.support.planner.single import OPERATORS

STEPS = 3
DATA_PARALLEL: dict[str, Placement] = {"x": Shard(0), "y": Shard(0)}

Loss = Callable[[Tensor, Tensor], Tensor]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]

OPTIMIZERS: dict[str, MakeOptimizer] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False),
    "sgd foreach": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True),
    "adamw": lambda parameters: AdamW(parameters, lr=0.01, eps=1e-3, foreach=False),
    "adamw foreach": lambda parameters: AdamW(parameters, lr=0.01, eps=1e-3, foreach=True),
    "adamw fused": lambda parameters: AdamW(parameters, lr=0.01, eps=1e-3, fused=True),
}


class Encoder(nn.Module):
    """Embedding, one encoder layer, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token, (batch, seq, vocabulary)."""
        return self.head(self.layer(self.embedding(tokens)))


class Attention(nn.Module):
    """Self-attention with heads that can be split: no axis is ever flattened into another."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.out = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, seq, 8) to the same."""
        batch, length, _ = x.shape
        heads = [linear(x).view(batch, length, 4, 2).transpose(1, 2) for linear in self.qkv]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, 8))


def mlp() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


def convolutional() -> nn.Module:
    """Convolutions with batch normalisation and pooling."""
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)),
    )


def language_loss(scores: Tensor, tokens: Tensor) -> Tensor:
    """Cross entropy of each token."""
    return functional.cross_entropy(scores.view(-1, 11), tokens.view(-1))


def train(model: nn.Module, loss: Loss, make: MakeOptimizer, x: Tensor, y: Tensor, steps: int = STEPS) -> Recording:
    """Records training steps."""
    optimizer = make(model.parameters())
    capture = Capture(OPERATORS)
    capture.name("x", x)
    capture.name("y", y)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        capture.name(name, tensor)
    with capture, client_operators(capture):
        for _ in range(steps):
            loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    return capture.recording


def counts(report: Report, divisor: int = STEPS) -> dict[tuple[str, str], int]:
    """Collectives of one step, by kind and operator."""
    total = Counter((kind, operator) for kind, _, operator in report.traffic)
    assert all(count % divisor == 0 for count in total.values()), total
    return {key: count // divisor for key, count in total.items()}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_data_parallel_reduces_each_gradient_once(optimizer: str, workers: int) -> None:
    recording = train(mlp(), nn.MSELoss(), OPTIMIZERS[optimizer], torch.randn(10, 6), torch.randn(10, 4))
    report = Fleet(OPERATORS, workers).replay(recording, DATA_PARALLEL)
    assert counts(report) == ({("all_reduce", "reduce"): 6} if workers > 1 else {})
    assert not report.fallbacks


@pytest.mark.parametrize("batch", [3, 7, 8])
@pytest.mark.parametrize("workers", [2, 4])
def test_convolutions_exchange_channel_statistics_only(workers: int, batch: int) -> None:
    x, y = torch.randn(batch, 1, 8, 8), torch.randint(0, 3, (batch,))
    recording = train(convolutional(), nn.CrossEntropyLoss(), OPTIMIZERS["sgd"], x, y)
    fleet = Fleet(OPERATORS, workers)
    report = fleet.replay(recording, DATA_PARALLEL)
    assert not report.fallbacks
    assert counts(report) == {
        ("all_reduce", "reduce"): 6,
        ("all_reduce", "aten::native_batch_norm"): 2,
        ("all_reduce", "aten::native_batch_norm_backward"): 2,
        ("all_reduce", "aten::nll_loss_forward"): 1,
    }
    largest = max(size for _, size, _ in report.traffic)
    assert largest == 4 * (6 * 4 * 3 * 3), "more than the largest gradient was moved"


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_an_encoder_layer_is_right_on_uneven_batches(workers: int) -> None:
    tokens = torch.randint(0, 11, (6, 5))
    recording = train(Encoder(), language_loss, OPTIMIZERS["adamw"], tokens, torch.randint(0, 11, (6, 5)))
    report = Fleet(OPERATORS, workers).replay(recording, DATA_PARALLEL)
    if workers in (2, 3):
        # The layer flattens (seq, batch), split along the second, before its output projection: that is gathered.
        assert set(report.fallbacks) <= {("aten::_unsafe_view", reason) for _, reason in report.fallbacks}
        assert counts(report)["all_reduce", "aten::nll_loss_forward"] == 1


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_attention_without_flattened_axes_gathers_nothing(workers: int) -> None:
    x, y = torch.randn(8, 5, 8), torch.randn(8, 5, 8)
    recording = train(Attention(), nn.MSELoss(), OPTIMIZERS["sgd"], x, y)
    report = Fleet(OPERATORS, workers).replay(recording, DATA_PARALLEL)
    assert counts(report) == {("all_reduce", "reduce"): 8}


@pytest.mark.parametrize("workers", [2, 4])
def test_split_heads_need_one_reduction_each_way(workers: int) -> None:
    places: dict[str, Placement] = {"out.weight": Shard(1)}
    for index in range(3):
        places |= {f"qkv.{index}.weight": Shard(0), f"qkv.{index}.bias": Shard(0)}
    x, y = torch.randn(3, 5, 8), torch.randn(3, 5, 8)
    recording = train(Attention(), nn.MSELoss(), OPTIMIZERS["adamw"], x, y)
    report = Fleet(OPERATORS, workers).replay(recording, places)
    assert counts(report) == {("all_reduce", "reduce"): 1}
    assert not report.fallbacks


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw foreach"])
def test_column_then_row_parallel_layers_need_one_reduction(workers: int, optimizer: str) -> None:
    places: dict[str, Placement] = {"0.weight": Shard(0), "0.bias": Shard(0), "2.weight": Shard(1)}
    recording = train(mlp(), nn.MSELoss(), OPTIMIZERS[optimizer], torch.randn(10, 6), torch.randn(10, 4))
    report = Fleet(OPERATORS, workers).replay(recording, places)
    assert counts(report) == {("all_reduce", "reduce"): 1}
    assert not report.fallbacks


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_everything_may_be_split(workers: int) -> None:
    model = mlp()
    places: dict[str, Placement] = {name: Shard(0) for name, _ in model.named_parameters()}
    recording = train(model, nn.MSELoss(), OPTIMIZERS["adamw"], torch.randn(10, 6), torch.randn(10, 4))
    report = Fleet(OPERATORS, workers).replay(recording, places | DATA_PARALLEL)
    assert not report.fallbacks


@pytest.mark.parametrize("workers", [2, 3])
def test_dropout_draws_the_same_numbers_and_gathers_nothing(workers: int) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 4))
    recording = train(model, nn.MSELoss(), OPTIMIZERS["sgd"], torch.randn(7, 6), torch.randn(7, 4))
    report = Fleet(OPERATORS, workers).replay(recording, DATA_PARALLEL)
    assert counts(report) == {("all_reduce", "reduce"): 4}


def test_parameters_on_one_worker_serve_a_batch_on_all() -> None:
    model = mlp()
    home = Mesh.single(2)
    recording = train(model, nn.MSELoss(), OPTIMIZERS["sgd"], torch.randn(10, 6), torch.randn(10, 4))
    fleet = Fleet(OPERATORS, 3)
    report = fleet.replay(recording, DATA_PARALLEL, {name: home for name, _ in model.named_parameters()})
    kinds = {kind for kind, _, _ in report.traffic}
    assert kinds == {"broadcast", "all_reduce"}
    assert counts(report)["all_reduce", "reduce"] == 6
    for name, _ in model.named_parameters():
        layout = fleet.directory.tensors[recording.numbers[name]].layout
        assert layout is not None
        assert layout.mesh == home


def test_a_region_moves_its_work_to_its_workers() -> None:
    recording = train(mlp(), nn.MSELoss(), OPTIMIZERS["sgd foreach"], torch.randn(4, 6), torch.randn(4, 4), steps=2)
    fleet = Fleet(OPERATORS, 4, Region(Mesh((2, 3), (2,)), (Replicate(),)))
    names = ["x", "y", *[f"{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")]]
    report = fleet.replay(recording, {}, dict.fromkeys(names, Mesh((0, 1), (2,))))
    assert {kind for kind, _, _ in report.traffic} == {"broadcast"}
