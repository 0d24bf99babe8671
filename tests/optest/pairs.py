"""What is tested: pairs of an operator and an element type."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES: Final = (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64)
#: `make test` takes one pair in so many.
SHARE: Final = 5


@dataclass(frozen=True)
class Pair:
    """An operator of `op_db` and an element type.

    Attributes:
        name: Name of the operator, with the variant's.
        dtype: Element type.
        info: PyTorch's description of the operator.
    """

    name: str
    dtype: torch.dtype
    info: Any

    @property
    def id(self) -> str:
        """The pair's name."""
        return f"{self.name}-{str(self.dtype).removeprefix('torch.')}"

    @property
    def differentiable(self) -> bool:
        """Whether gradients are compared: once for each operator that has them."""
        return self.info.supports_autograd and self.dtype is _gradient_dtype(self.info)

    @property
    def chosen(self) -> bool:
        """Whether the pair belongs to the fixed share that `make test` takes."""
        return hashlib.sha256(self.id.encode()).digest()[0] % SHARE == 0


def pairs() -> Iterator[Pair]:
    """All pairs, in the order of `op_db`."""
    for info in op_db:
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        supported = info.supported_dtypes("cpu")
        for dtype in DTYPES:
            if dtype in supported:
                yield Pair(name, dtype, info)


def _gradient_dtype(info: Any) -> torch.dtype | None:
    backward = info.supported_backward_dtypes("cpu")
    return next((dtype for dtype in (torch.float32, torch.complex64) if dtype in backward), None)
