"""Signals: names for regions and tensors of a program, by which the sharding file places them.

A program without a sharding file gives the same results with and without its signals.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any, cast

import torch

from gt.blocks import builder
from gt.blocks.handles import Handle
from gt.blocks.regions import check_signal
from gt.detours import materialize
from gt.sources import here
from gt.tensor import FleetTensor, wrap


class context(ContextDecorator):  # noqa: N801  # reads as a function: `with gt.signal.context("layer1"):`
    """A region of the program; also a decorator.

    Args:
        name: The region's signal.
    """

    def __init__(self, name: str) -> None:
        check_signal(name)
        self._name = name

    def __enter__(self) -> None:
        enter(self._name)

    def __exit__(self, *_: object) -> None:
        exit(self._name)


def enter(name: str) -> None:
    """A region begins in this thread.

    Args:
        name: The region's signal.

    Raises:
        SignalError: The name can't be used.
    """
    builder.regions.enter(name)


def exit(name: str) -> None:  # pairs with `enter`
    """The innermost region ends in this thread.

    Args:
        name: The region's signal.

    Raises:
        SignalError: The innermost region is another one, or there is none.
    """
    builder.regions.leave(name)


def tensor(value: torch.Tensor, name: str, backward: str | None = None) -> torch.Tensor:
    """Places a tensor by a signal's rule.

    Args:
        value: The tensor; one that is not on the fleet is given back as it is.
        name: The signal.
        backward: The signal that places the tensor's gradient, if any.

    Returns:
        The same values, placed.

    Raises:
        SignalError: A name can't be used.
    """
    check_signal(name)
    if backward is not None:
        check_signal(backward)
    if type(value) is not FleetTensor:
        return value
    if value.requires_grad and torch.is_grad_enabled():
        return cast(torch.Tensor, _Placed.apply(value, name, backward))
    return _place(value, name)


def _place(value: torch.Tensor, name: str) -> FleetTensor:
    source = cast(FleetTensor, value)
    if source._h.meta.pristine:
        materialize(source._h)
    handle = Handle(source._h.meta)
    builder.place(source, name, handle, here())
    return wrap(handle)


class _Placed(torch.autograd.Function):
    """The identity, whose result, and whose gradient, are placed."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, name: str, backward: str | None) -> torch.Tensor:
        ctx.backward_name = backward
        return _place(value, name)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        name = ctx.backward_name
        return tensor(grads[0], name) if name is not None else grads[0], None, None
