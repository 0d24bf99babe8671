"""Errors as values: what travels to a client when something it asked for failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec


class FailureKind:
    """What kind of thing went wrong; decides the exception that the client raises."""

    OPERATOR: Final = "operator"
    """An operator raised on a worker, or could not be planned."""
    WORKER_LOST: Final = "worker-lost"
    """A worker that held the tensor has gone."""
    NO_WORKER: Final = "no-worker"
    """No worker is there to run on."""
    UNKNOWN_TENSOR: Final = "unknown-tensor"
    """The tensor was never made, or is freed already."""
    SHARDING: Final = "sharding"
    """The sharding file asks for something that this tensor or cluster can't do."""


def describe_operand(dtype: str, shape: Iterable[int]) -> str:
    """A tensor's type and shape as error messages show it, such as `float32(2, 3)`."""
    return f"{dtype}({', '.join(map(str, shape))})"


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a tensor has no value.

    Attributes:
        kind: One of `FailureKind`.
        message: The cause in words, and what to do.
        op: The operator that failed, such as `aten::mm`, or empty.
        operands: The operands' types and shapes, such as `float32(2, 3)`.
        block: Sequence number of the client's message that held the instruction, or -1.
        instruction: Position of the instruction in its block, or -1.
        signal: The innermost signal at that point, or empty.
        worker: Index of the worker, or -1.
        cause: Name of the exception's type on the worker, or empty.
    """

    kind: str
    message: str
    op: str = ""
    operands: tuple[str, ...] = ()
    block: int = -1
    instruction: int = -1
    signal: str = ""
    worker: int = -1
    cause: str = ""
