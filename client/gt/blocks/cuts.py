"""Where a block ends, decided by its content, so that repeated steps are cut at the same places."""

from __future__ import annotations

import hashlib
from typing import Final

#: A block never has more instructions.
MAX_INSTRUCTIONS: Final = 256
#: A content-defined cut leaves at least this many.
MIN_INSTRUCTIONS: Final = 32
#: A cut where an earlier one was forced leaves at least this many.
MIN_ANCHORED: Final = 64
#: Forced cuts to remember.
MAX_ANCHORS: Final = 1024

#: The rolling hash has 16 bits, one instruction moves it by one: it depends on the last 16.
HASH_MASK: Final = (1 << 16) - 1
#: A content-defined cut is where these bits are all zero: once in 128 instructions.
CUT_MASK: Final = 0x7F << 9


def gear(encoded_call: bytes) -> int:
    """An instruction's share of the rolling hash: the same in every process."""
    return int.from_bytes(hashlib.blake2b(encoded_call, digest_size=2).digest(), "little")


class CutRule:
    """Decides whether a block ends after an instruction.

    A long loop without reads would be cut by force, at 256, each time in another phase. So the rolling hash at a forced
    cut is remembered, and the next pass over the same place cuts there again: the phases lock after one pass.
    """

    def __init__(self) -> None:
        self._anchors: set[int] = set()

    def is_due(self, rolling: int, count: int) -> bool:
        """Whether to end the block.

        Args:
            rolling: The rolling hash after the block's last instruction.
            count: Number of its instructions.
        """
        if not rolling & CUT_MASK or (count >= MIN_ANCHORED and rolling in self._anchors):
            return True
        if count < MAX_INSTRUCTIONS:
            return False
        if len(self._anchors) >= MAX_ANCHORS:
            self._anchors.clear()
        self._anchors.add(rolling)
        return True
