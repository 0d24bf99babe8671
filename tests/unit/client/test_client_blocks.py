"""What the stream of instructions looks like: bodies that repeat, frees, cuts, interrupts."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from loopback import Loopback
from torch import nn
from torch.nn import functional as F

from gt.blocks import builder
from gt.blocks.cuts import MAX_INSTRUCTIONS, MIN_INSTRUCTIONS
from gt.blocks.handles import frees


def make_model(kind: str) -> nn.Module:
    torch.manual_seed(1)
    if kind == "conv":
        return nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        )
    if kind == "encoder":
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        return nn.Sequential(layer, nn.Flatten(), nn.Linear(32, 3))
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


SHAPES = {"conv": (4, 2, 6, 6), "encoder": (4, 4, 8), "mlp": (4, 8)}
LOOPS = {
    "mlp_sgd": ("mlp", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "mlp_adamw": ("mlp", lambda p: torch.optim.AdamW(p, 0.01)),
    "mlp_adamw_foreach": ("mlp", lambda p: torch.optim.AdamW(p, 0.01, foreach=True)),
    "conv_sgd": ("conv", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True)),
    "encoder_adamw": ("encoder", lambda p: torch.optim.AdamW(p, 0.01, foreach=True)),
}


def train(name: str, steps: int, fleet: Loopback, read_every: int = 1) -> list[tuple[bytes, ...]]:
    """Digests of the blocks of each step."""
    kind, make = LOOPS[name]
    model = make_model(kind).to("fleet")
    optimizer = make(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    digests: list[tuple[bytes, ...]] = []
    fleet.blocks.clear()
    for step in range(steps):
        before = len(fleet.blocks)
        x = torch.randn(*SHAPES[kind], generator=torch.Generator().manual_seed(step)).to("fleet")
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), torch.tensor([0, 1, 2, 1]).to("fleet"))
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % read_every == 0:
            loss.item()
        digests.append(tuple(block.digest for block in fleet.blocks[before:]))
    return digests


@pytest.mark.parametrize("name", LOOPS)
def test_steps_repeat_byte_by_byte(name: str, fleet: Loopback) -> None:
    digests = train(name, 6, fleet)
    assert all(digests)
    assert len(set(digests[2:])) == 1
    assert digests[0] != digests[1]


def test_a_long_loop_without_reads_settles(fleet: Loopback) -> None:
    train("mlp_adamw", 60, fleet, read_every=1000)
    counts = Counter(block.digest for block in fleet.blocks[len(fleet.blocks) // 2 :])
    seen_before = {block.digest for block in fleet.blocks[: len(fleet.blocks) // 2]}
    assert sum(counts.values()) > 10
    assert sum(count for digest, count in counts.items() if digest in seen_before) >= 0.9 * sum(counts.values())


def test_two_processes_make_the_same_bodies(fleet: Loopback) -> None:
    here = Path(__file__).parent
    code = (
        f"import sys; sys.path.insert(0, {str(here)!r})\n"
        "import gt.device, test_client_blocks as t\n"
        "from gt.blocks import builder\nfrom gt.session_api import use_session\nfrom loopback import Loopback\n"
        "fleet = Loopback(); use_session(lambda: fleet); builder.idle.gap = 60\n"
        "print([[d.hex() for d in s] for s in t.train('mlp_sgd', 4, fleet)])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    (torch.ones(2).to("fleet") + 1).sum().item()  # numbers of calls differ between the processes, bodies do not
    builder.flush()
    assert result.stdout.strip() == str([[d.hex() for d in step] for step in train("mlp_sgd", 4, fleet)])


def test_floats_change_no_body(fleet: Loopback) -> None:
    x = torch.ones(3).to("fleet")
    digests = []
    for factor in (0.5, 2.0, float("inf")):
        y = x * factor
        builder.flush()
        digests.append(fleet.digests[-1])
        del y
        builder.flush()
    assert len(set(digests)) == 1
    (x * 2).sum().item()
    assert fleet.digests[-1] not in digests


def test_one_and_true_are_different_calls(fleet: Loopback) -> None:
    x = torch.tensor([True, False]).to("fleet")
    assert (x + 1).dtype == torch.int64
    assert (x + True).dtype == torch.bool


def test_frees_stand_where_the_program_dropped(fleet: Loopback) -> None:
    x = torch.ones(3).to("fleet")
    for _ in range(3):
        x = x + 1
    builder.flush()
    assert len(fleet.tensors) == 1
    del x
    builder.flush()
    assert not fleet.tensors


def test_frees_of_the_collector_come_late(fleet: Loopback) -> None:
    gc.collect()
    gc.disable()
    try:
        holder: list[Any] = [torch.ones(3).to("fleet") + 1]
        holder.append(holder)
        builder.flush()
        assert len(fleet.tensors) == 2 - 1
        del holder
        builder.flush()
        assert len(fleet.tensors) == 1
        gc.collect()
        assert frees.late
        assert not frees.dropped
        builder.flush()
        assert fleet.blocks[-1].bindings.late_frees
        assert not fleet.tensors
    finally:
        gc.enable()


def test_the_device_makes_no_reference_cycles(fleet: Loopback) -> None:
    train("mlp_adamw", 2, fleet)
    gc.collect()
    gc.disable()
    try:
        train("mlp_adamw", 1, fleet)
        x = torch.ones(3).to("fleet")
        x[0].add_(1)
        repr(x)
        x.to(torch.float64).cpu()
        del x
        builder.flush()
        gc.collect()
        assert len(frees.late) == 0
    finally:
        gc.enable()


def test_a_block_is_bounded(fleet: Loopback) -> None:
    x = torch.ones(2).to("fleet")
    for k in range(1500):
        x = x.add(k % 251)
    builder.flush()
    sizes = [block.decoded.instructions for block in fleet.blocks]
    assert max(sizes) <= MAX_INSTRUCTIONS
    assert all(size >= MIN_INSTRUCTIONS for size in sizes[:-1])
    assert sum(sizes) == 1500


def test_an_interrupt_while_sending_loses_nothing(fleet: Loopback) -> None:
    x = torch.ones(3).to("fleet") + 1
    for error in (KeyboardInterrupt, TimeoutError):
        fleet.interrupts.append(error)
        with pytest.raises(error):
            x.sum().item()
        x = x + 1
    assert x.tolist() == [4, 4, 4]


def test_many_threads_emit_at_once(fleet: Loopback) -> None:
    results: dict[int, float] = {}

    def work(k: int) -> None:
        x = torch.full((4,), float(k)).to("fleet")
        for _ in range(200):
            x = (x + 1) * 1
        results[k] = x.sum().item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: 4.0 * (k + 200) for k in range(4)}
    builder.flush()
    builder.flush()
    assert not fleet.tensors


def test_a_pause_sends_what_waits(fleet: Loopback) -> None:
    builder.idle.gap = 0.003
    arrived = threading.Event()
    send = fleet.send_block

    def watched(*args: Any) -> None:
        send(*args)
        arrived.set()

    fleet.send_block = watched  # type: ignore[method-assign]  # notices the block without polling
    x = torch.ones(3, device="fleet")
    assert arrived.wait(10)
    arrived.clear()
    del x
    assert arrived.wait(10)
    assert not fleet.tensors


def test_a_move_is_one_upload_and_no_instruction(fleet: Loopback) -> None:
    x = torch.arange(6.0).view(2, 3).t().to("fleet")
    y = torch.ones(2).to("fleet", torch.float16)
    parameter = nn.Linear(2, 2).to("fleet").weight
    assert fleet.uploads == 4
    assert not builder.pending
    assert x.stride() == (1, 3)
    assert y.dtype == torch.float16
    assert isinstance(parameter, nn.Parameter)


def test_an_upload_is_a_copy(fleet: Loopback) -> None:
    source = torch.zeros(3)
    x = source.to("fleet")
    source.add_(1)
    assert x.tolist() == [0, 0, 0]


def test_no_op_views_are_no_instructions(fleet: Loopback) -> None:
    x = torch.ones(2, 3).to("fleet")
    before = builder.emitted
    views = [x.detach(), x.data, x.view(2, 3), x.expand(2, 3), x[:], torch.ops.aten.alias(x), x.view_as(x)]
    assert builder.emitted == before
    views[2].add_(1)
    assert x.sum().item() == 12


def test_a_forked_child_gets_a_clear_error(fleet: Loopback) -> None:
    code = (
        f"import sys, os; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, gt.device\nfrom gt.session_api import use_session\nfrom loopback import Loopback\n"
        "fleet = Loopback(); use_session(lambda: fleet)\n"
        "x = torch.ones(3).to('fleet')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n        x + 1\n"
        "    except Exception as error:\n        print(type(error).__name__, error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(x.sum().item())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    child, parent = result.stdout.splitlines()
    assert child.startswith("ClientError")
    assert "spawn" in child
    assert parent == "3.0"


def test_the_interpreter_ends_without_noise(fleet: Loopback) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, gt.device\nfrom gt.session_api import use_session\nfrom loopback import Loopback\n"
        "fleet = Loopback(); use_session(lambda: fleet)\n"
        "x = torch.ones(3, device='fleet', requires_grad=True)\n"
        "cycle = [x + 1]; cycle.append(cycle)\n"
        "class Late:\n    def __del__(self, x=x): self.y = x\n"
        "late = Late()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
