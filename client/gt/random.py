"""Random numbers: a seed, and a counter of the instructions that draw from it."""

from __future__ import annotations

import struct
from typing import Final

import torch

from gt.blocks import builder

_STATE: Final = struct.Struct("<QQ")
_MASK: Final = (1 << 64) - 1


def manual_seed(seed: int) -> None:
    """Sets the seed and zeroes the counter; `torch.manual_seed` calls this."""
    builder.set_random(int(seed) & _MASK, 0)


def initial_seed() -> int:
    """The seed that was set last."""
    return builder.seed


def get_rng_state(device: object = None) -> torch.Tensor:
    """Seed and counter, as a CPU tensor of 16 bytes."""
    return torch.tensor(list(_STATE.pack(builder.seed, builder.counter)), dtype=torch.uint8, device="cpu")


def set_rng_state(state: torch.Tensor, device: object = None) -> None:
    """Goes back to a state that `get_rng_state` gave.

    Raises:
        ValueError: It is none.
    """
    if state.dtype != torch.uint8 or state.numel() != _STATE.size:
        raise ValueError(f"a state of the fleet's random numbers is {_STATE.size} bytes, as get_rng_state() gives them")
    seed, counter = _STATE.unpack(bytes(state.tolist()))
    builder.set_random(seed, counter)
