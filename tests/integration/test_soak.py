"""Two programs hammer one fleet for a minute: every value is right, and no process grows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gt_fleet import LocalFleet

SECONDS = 60
WARM_UP = 10
READS = 500
#: Allocators keep some memory back for later; what leaks grows with every step and passes this within a minute.
SLACK_BYTES = 6 << 20

CLIENT = """
import random, sys, time
import torch
import gt

seconds, reads, seed = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
end, done = time.monotonic() + seconds, 0
with torch.no_grad():
    while time.monotonic() < end or done < reads:
        size, steps, factor = draw.randint(1, 64), draw.randint(1, 200), draw.randint(-3, 3)
        x = torch.full((size,), float(seed), device="fleet")
        for _ in range(steps):
            x = x + factor
        value = x.cpu()
        if not torch.equal(value, torch.full((size,), float(seed + steps * factor))):
            sys.exit(f"wrong value after {done} reads: {value}")
        done += 1
print(done)
"""


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(240)
def test_two_clients_get_right_values_and_nothing_grows() -> None:
    with LocalFleet.start(1) as fleet:
        env = {**os.environ, "GT_ADDRESS": fleet.address, "OMP_NUM_THREADS": "1"}
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", CLIENT, str(SECONDS), str(READS), str(seed)],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for seed in (11, 23)
        ]  # fmt: skip
        try:
            pids = {**fleet.pids, **{f"client-{k}": client.pid for k, client in enumerate(clients)}}
            start = time.monotonic()
            before = after = dict.fromkeys(pids, 0)
            while all(_runs(client) for client in clients) and time.monotonic() - start < SECONDS:
                after = {name: _resident_bytes(pid) for name, pid in pids.items()}
                if time.monotonic() - start < 2 * WARM_UP:
                    before = after
            for client in clients:
                output, errors = client.communicate(timeout=120)
                assert client.returncode == 0, errors
                assert int(output) >= READS
        finally:
            for client in clients:
                client.kill()
                client.wait(timeout=10)
    grown = {name: after[name] - before[name] for name in pids if after[name] - before[name] > SLACK_BYTES}
    assert not grown, f"bytes grown since the first {2 * WARM_UP} s: {grown}"


def _runs(client: subprocess.Popen[str]) -> bool:
    """Waits a second for a client's end; tells whether it still runs."""
    try:
        client.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return True
    return False
