"""All use of PyTorch's private interfaces; nothing else in the client touches them.

PyTorch is pinned to one exact version because of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any, Final

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

DEVICE_TYPE: Final = "fleet"

#: What PyTorch shows as `torch.fleet`; `gt.device_module` fills it.
device_module: Final = ModuleType(f"torch.{DEVICE_TYPE}")


_PRIVATE_USE: Final[Any] = torch._C._autograd.DeviceType.PrivateUse1
_probe: Final = partial(len, ())
_escaped: list[BaseException] = []


def _device_type() -> Any:
    """The device's type. PyTorch asks for it even while a Python exception passes through a backward pass.

    Python's error indicator is set then, so that any call fails, and PyTorch would end the process. Here the probe
    fails instead, and tells which exception it was; `run_backward` raises it again.
    """
    try:
        _probe()
    except SystemError as failure:
        if failure.__cause__ is not None:
            _escaped.append(failure.__cause__)
    return _PRIVATE_USE


class _DeviceGuard(torch._C._acc.DeviceGuard):
    """Tells PyTorch that its one device needs no switching."""

    # A look-up that goes on to a base class would clear the indicator, and with it the exception.
    type_: Any = staticmethod(_device_type)

    def __init__(self) -> None:
        super().__init__()
        # Python checks the indicator after a method's call; PyTorch finds a plain function in the instance.
        self.type_ = _device_type


# Once in a process, and before anything asks for a device of this name.
_setup_privateuseone_for_python_backend(DEVICE_TYPE, backend_module=device_module, device_guard=_DeviceGuard())

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


def without_writing(func: Any) -> Any:
    """The overload that returns what an in-place operator such as `transpose_` leaves behind, or None."""
    name = func._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
    wanted = [(argument.name, str(argument.type)) for argument in func._schema.arguments]
    for overload in packet.overloads() if packet is not None else ():
        found = getattr(packet, overload)
        if [(argument.name, str(argument.type)) for argument in found._schema.arguments] == wanted:
            return found
    return None


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


def _wrap_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind all backward passes, so that it fits tensors of the device."""

    @wraps(original)
    def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        _escaped.clear()
        # In the caller's thread, signals and source lines are at hand, and two changes of thread are saved. For passes
        # over the CPU alone nothing changes: they run there anyway.
        with torch.autograd.set_multithreading_enabled(False):
            try:
                return original(outputs, *args, **kwargs)
            except SystemError:
                if _escaped:
                    raise _escaped[0] from None
                raise

    return run_backward


_autograd: Final[Any] = torch.autograd
_autograd._engine_run_backward = _wrap_backward(_autograd._engine_run_backward)
