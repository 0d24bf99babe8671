"""Counter-based randomness: the numbers of an instruction depend on its session's seed and its counter alone.

Each random instruction seeds the device's generator anew, so its numbers depend neither on what ran before, nor on
placement, nor on replay. Two properties of the seed matter:

- PyTorch's CPU generator (MT19937) uses the low 32 bits only. For a fixed session these are a bijection of the low 32
  bits of the counter, so no two instructions of a session share a stream before 2**32 of them.
- CUDA's generator (Philox) uses all 64 bits. The high half depends on seed and counter as well, so that sessions that
  meet in the low half still differ there.
"""

from __future__ import annotations

from typing import Final

_MASK64: Final = (1 << 64) - 1
_MASK32: Final = (1 << 32) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


def mix64(value: int) -> int:
    """The finaliser of SplitMix64: a bijection of 64 bits in which each bit of the input flips half of the output."""
    value &= _MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return value ^ (value >> 31)


def mix32(value: int) -> int:
    """The finaliser of MurmurHash3: the same for 32 bits."""
    value &= _MASK32
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & _MASK32
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & _MASK32
    return value ^ (value >> 16)


def instruction_seed(seed: int, counter: int) -> int:
    """The 64-bit seed of one random instruction.

    Args:
        seed: The session's seed; any integer.
        counter: The instruction's place among the session's random instructions.
    """
    session = mix64((seed + _GOLDEN) & _MASK64)
    high = mix64(session ^ mix64((counter + _GOLDEN) & _MASK64)) >> 32
    low = mix32(mix32(counter) + (session & _MASK32))
    return (high << 32) | low
