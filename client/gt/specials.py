"""Operators that need more than an instruction, such as reads and uploads, and what carries them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from gt._torch import get_overload

#: Called with (overload, positional arguments, keyword arguments).
Handler: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

specials: Final[dict[Any, Handler]] = {}


def special(*names: str) -> Callable[[Handler], Handler]:
    """Has a function carry out these operators.

    Args:
        names: ATen overloads without namespace, such as `add.Tensor`.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            overload = get_overload(name)
            if overload is None:
                raise LookupError(f"this PyTorch has no operator {name}")
            specials[overload] = handler
        return handler

    return register
