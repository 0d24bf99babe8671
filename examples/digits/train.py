"""Trains a small convolutional network on scikit-learn's handwritten digits.

It is plain PyTorch: DEVICE=cpu runs it without a fleet, DEVICE=fleet (the default) on one. How it is sharded stands in
sharding.yaml; without that file it runs on one worker, with the same results.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from torch import nn

DEVICE = os.environ.get("DEVICE", "fleet")
EPOCHS = int(os.environ.get("EPOCHS", "20"))
BATCH = 128

if DEVICE == "fleet":
    import gt

    region = gt.signal.context
else:

    def region(name: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 4 * 4, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.out(F.relu(self.hidden(x.flatten(1))))


def load() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    x, y = x[order], y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]


def batches(x: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    order = torch.randperm(len(x))
    for start in range(0, len(x) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        with region("batch"):
            batch = x[chosen].to(DEVICE), y[chosen].to(DEVICE)
        yield batch


def accuracy(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        with region("batch"):
            x, y = x.to(DEVICE), y.to(DEVICE)
        return (net(x).argmax(1) == y).float().mean().item()


def main() -> None:
    torch.manual_seed(0)
    x, y, x_test, y_test = load()
    net = Net()
    with region("model"):
        net.to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses: list[torch.Tensor] = []
    start = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("training", total=EPOCHS * (len(x) // BATCH))
        for _ in range(EPOCHS):
            for x_batch, y_batch in batches(x, y):
                loss = F.cross_entropy(net(x_batch), y_batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
                progress.advance(task)
            progress.update(task, description=f"loss {losses[-1].item():.4f}")
    seconds = time.perf_counter() - start
    print(f"accuracy {100 * accuracy(net, x_test, y_test):.2f} %")
    print(f"wall time {seconds:.1f} s")
    if DEVICE == "fleet":
        print(f"instructions per second {gt.instructions() / seconds:,.0f}")
    if "LOSSES" in os.environ:
        Path(os.environ["LOSSES"]).write_text(json.dumps([loss.item() for loss in losses]))


if __name__ == "__main__":
    main()
