"""All use of PyTorch's private interfaces; nothing else in the client touches them.

PyTorch is pinned to one exact version because of this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

DEVICE_TYPE: Final = "fleet"

#: What PyTorch shows as `torch.fleet`; `gt.device_module` fills it.
device_module: Final = ModuleType(f"torch.{DEVICE_TYPE}")
# Once in a process, and before anything asks for a device of this name.
_setup_privateuseone_for_python_backend(DEVICE_TYPE, backend_module=device_module)

#: `make_wrapper(cls, size, strides, offset, memory_format, dtype, layout, device)`: a tensor without a storage.
make_wrapper: Final[Callable[..., Any]] = torch.Tensor._make_wrapper_subclass
#: Lets a subclass of `torch.Tensor` skip `__torch_function__`.
disabled_torch_function: Final[Any] = torch._C._disabled_torch_function_impl
#: The node of the autograd graph that runs now in this thread, or None.
current_autograd_node: Final[Callable[[], Any]] = torch._C._current_autograd_node
#: The number that the next autograd node made in this thread gets.
next_node_number: Final[Callable[[], int]] = torch._C._autograd._get_sequence_nr

_libraries: list[Any] = []
_data: Final[Any] = torch._C.TensorBase.data


def register_kernel(name: str, kernel: Callable[..., Any], *, autograd: bool = False) -> None:
    """Registers a kernel for the device.

    Args:
        name: ATen overload without namespace, such as `empty.memory_format`.
        kernel: What to call.
        autograd: Register above autograd, which then sees only what the kernel calls.
    """
    if not _libraries:
        open_library: Any = torch.library.Library
        _libraries.append(open_library("aten", "IMPL"))
    _libraries[0].impl(name, kernel, "AutogradPrivateUse1" if autograd else "PrivateUse1")


def get_overload(name: str) -> Any:
    """The ATen overload of a name such as `add.Tensor` or `mm`, or None."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None)


def is_composite(func: Any) -> bool:
    """Whether PyTorch takes this operator apart into others before any device sees it."""
    return bool(func._can_decompose())


def decomposition(func: Any) -> Callable[..., Any] | None:
    """PyTorch's own decomposition of an operator into simpler ones, or None."""
    from torch._decomp import decomposition_table  # slow to import, and seldom needed

    return decomposition_table.get(func)


def shares_storage(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are views of the same bytes."""
    return bool(torch._C._is_alias_of(first, second))  # type: ignore[attr-defined]  # not in the stubs


def set_tensor_data(target: torch.Tensor, source: torch.Tensor) -> None:
    """Gives a tensor another one's metadata, as `target.data = source` does."""
    _data.__set__(target, source)


def get_tensor_data(tensor: torch.Tensor) -> torch.Tensor:
    """What `tensor.data` gives."""
    return _data.__get__(tensor)  # type: ignore[no-any-return]


def format_values(values: torch.Tensor, indent: int, *, shorten: bool) -> str:
    """A CPU tensor's values as `repr` shows them.

    Args:
        values: The tensor.
        indent: Columns that stand before it.
        shorten: Leave out the middle of long axes.
    """
    from torch import _tensor_str

    options = {"threshold": 0} if shorten else {}
    show: Any = _tensor_str._tensor_str
    with _tensor_str.printoptions(**options):
        return str(show(values, indent))


def print_limits() -> tuple[int, int]:
    """(number of elements from which on a tensor is shortened, elements kept at either end of an axis)."""
    from torch import _tensor_str

    return int(_tensor_str.PRINT_OPTS.threshold), int(_tensor_str.PRINT_OPTS.edgeitems)


def rebuild_from_cpu() -> Callable[..., torch.Tensor]:
    """The function by which `torch.load` rebuilds a tensor of a device from one on the CPU."""
    return torch._utils._rebuild_device_tensor_from_cpu_tensor


def rebuild_parameter() -> Callable[..., torch.Tensor]:
    """The function by which `torch.load` rebuilds a parameter."""
    return torch._utils._rebuild_parameter


class CallerThreadBackward(threading.local):
    """Runs backward passes of this thread in this thread, not in one of autograd's own.

    Signals and source lines then belong to the caller, and a pass saves two changes of thread.
    Only passes over devices are concerned: those over the CPU run in the caller's thread anyway.
    """

    def __init__(self) -> None:
        torch.autograd.set_multithreading_enabled(False)

    def touch(self) -> None:
        """Makes it so for the calling thread."""


caller_thread_backward: Final = CallerThreadBackward()
