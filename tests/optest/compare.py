"""Whether two results are the same."""

from __future__ import annotations

from typing import Any

import torch

from tests.optest.moving import flat


class Different(AssertionError):
    """The fleet's result is not the CPU's."""


def require_same(expected: Any, actual: Any, *, values: bool = True) -> None:
    """Compares two results.

    Args:
        expected: The CPU's.
        actual: The fleet's.
        values: Whether the values count, and not just shapes, types and strides.

    Raises:
        Different: They differ; the message says how.
    """
    wanted, got = list(flat(expected)), list(flat(actual))
    if len(wanted) != len(got):
        raise Different(f"{len(got)} results where the CPU gives {len(wanted)}")
    for want, have in zip(wanted, got, strict=True):
        if isinstance(want, torch.Tensor):
            _require_same_tensor(want, have, values)
        elif values and not _equal(want, have):
            raise Different(f"{have!r} where the CPU gives {want!r}")


def _require_same_tensor(want: torch.Tensor, have: Any, values: bool) -> None:
    if not isinstance(have, torch.Tensor):
        raise Different(f"{type(have).__name__} where the CPU gives a tensor")
    if have.device.type != "fleet":
        raise Different(f"the result is on {have.device}")
    for what in ("shape", "dtype", "layout"):
        if getattr(want, what) != getattr(have, what):
            raise Different(f"{what} is {getattr(have, what)}, on the CPU {getattr(want, what)}")
    if want.layout is torch.strided and _steps(want) != _steps(have):
        raise Different(f"strides are {have.stride()}, on the CPU {want.stride()}, for {tuple(want.shape)}")
    if not values:
        return
    try:
        torch.testing.assert_close(have.detach().cpu(), want.detach(), equal_nan=True)
    except AssertionError as error:
        raise Different(str(error)) from None


def _steps(tensor: torch.Tensor) -> list[int]:
    """The strides that matter."""
    if tensor.numel() == 0:
        return []
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _equal(want: Any, have: Any) -> bool:
    if isinstance(want, float | complex) and isinstance(have, float | complex):
        return torch.isclose(torch.tensor(want), torch.tensor(have), equal_nan=True).item() is True
    if isinstance(want, torch.device):
        return True
    return bool(want == have)
