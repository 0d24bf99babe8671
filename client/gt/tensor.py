"""The tensor type of the device."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import torch

from gt._torch import (
    disabled_torch_function,
    get_tensor_data,
    make_wrapper,
    rebuild_from_cpu,
    rebuild_parameter,
    set_tensor_data,
)
from gt.blocks.handles import Handle
from gt.errors import UnsupportedError
from gt.metadata import Meta


class FleetTensor(torch.Tensor):
    """A tensor that lives on the fleet: metadata and a handle, no bytes.

    PyTorch calls `__torch_dispatch__` (see `gt.dispatch`) for each operator below autograd.

    Attributes:
        _h: The handle.
    """

    _h: Handle

    __torch_function__ = disabled_torch_function

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]  # torch's is untyped
        from gt.printing import format_tensor

        return format_tensor(self)

    @property
    def data(self) -> torch.Tensor:
        """The same tensor outside of the autograd graph."""
        return get_tensor_data(self)

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if type(value) is not FleetTensor:
            raise UnsupportedError(
                f"the data of a tensor on the fleet can't be set to one on {value.device}: "
                'move it first, with value.to("fleet")'
            )
        adopt(self, value)

    def numpy(self, *, force: bool = False) -> Any:
        """The values as an array; only by force, since it waits for them.

        Raises:
            TypeError: Without force, as for any tensor that is not on the CPU.
        """
        if not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return self.detach().cpu().numpy()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self.dim() else object.__format__(self, spec)

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; waits for them."""
        return self.detach().cpu().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if id(self) in memo:
            return cast(torch.Tensor, memo[id(self)])
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
            )
        with torch.no_grad():
            copied = self.detach().clone()
        memo[id(self)] = copied
        copied.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        copied.__dict__.update(
            {name: copy.deepcopy(value, memo) for name, value in self.__dict__.items() if name != "_h"}
        )
        return copied

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if isinstance(self, torch.nn.Parameter):
            return rebuild_parameter(), (self.detach(), self.requires_grad, OrderedDict())
        return rebuild_from_cpu(), (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        """Marks the type as one whose parameters `Module.to` swaps, which keeps tied weights tied."""
        raise UnsupportedError("torch.compile can't trace tensors on the fleet; call the function as it is")

    @staticmethod
    def __tensor_unflatten__(*_: Any) -> torch.Tensor:
        """The other half of `__tensor_flatten__`."""
        raise UnsupportedError("torch.compile can't trace tensors on the fleet; call the function as it is")


def wrap(handle: Handle) -> FleetTensor:
    """A new tensor object for a handle."""
    tensor = cast(FleetTensor, make_wrapper(FleetTensor, *handle.meta.wrapper))
    tensor._h = handle
    return tensor


def wrap_pristine(meta: Meta) -> FleetTensor:
    """A tensor without content, which no instruction has made yet (`meta` is a pristine twin)."""
    return wrap(Handle(meta))


def adopt(target: FleetTensor, source: FleetTensor) -> None:
    """Makes `target` another object for the tensor of `source`, with its metadata."""
    set_tensor_data(target, source)
    target._h = source._h
