"""The stream of instructions: emission, blocks, frees."""

from gt.blocks.block_builder import BlockBuilder

__all__ = ["BlockBuilder", "builder", "flush"]

builder = BlockBuilder()


def flush() -> None:
    """Sends all instructions that were emitted so far."""
    builder.flush()
