"""How a tensor lies along one dimension of a mesh."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Shard(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Cut along an axis, as `torch.chunk` cuts; each worker holds one piece, which may be empty.

    Attributes:
        axis: The axis; negative ones count from the end.
    """

    axis: int


class Replicate(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Each worker holds all of it."""


class Partial(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Each worker holds a contribution; only ever a result, never asked for.

    Attributes:
        reduce_op: How contributions make the value: `sum`, `avg`, `max`, `min` or `product`.
    """

    reduce_op: str


Placement: TypeAlias = Shard | Replicate | Partial
