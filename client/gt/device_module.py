"""`torch.fleet`: what PyTorch and programs ask of a device's module."""

from __future__ import annotations

import os
from typing import Any, Final

import torch

from gt import random
from gt._torch import DEVICE_TYPE, device_module

_owner: Final = os.getpid()


class device:  # noqa: N801  # PyTorch's modules of devices name it so
    """`with torch.fleet.device(0):`, which changes nothing, since there is one fleet."""

    def __init__(self, device: Any = None) -> None:
        _check_index(device)

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""


def is_available() -> bool:
    """Whether the device can be used: always, since a local fleet starts where none is given."""
    return True


def is_initialized() -> bool:
    """Whether the device is ready to be asked."""
    return True


def device_count() -> int:
    """Number of devices: a fleet is one, however many workers it has."""
    return 1


def current_device() -> int:
    """Index of the device in use."""
    return 0


def set_device(device: Any) -> None:
    """Chooses the device in use: there is one.

    Raises:
        RuntimeError: It is another one.
    """
    _check_index(device)


def get_device_name(device: Any = None) -> str:
    """The device's name."""
    return DEVICE_TYPE


def synchronize(device: Any = None) -> None:
    """Waits until what was emitted so far has run.

    Raises:
        GTTimeoutError: It did not end in time.
    """
    torch.zeros((), device=DEVICE_TYPE).item()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Element types that autocast may choose."""
    return [torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:
    return os.getpid() != _owner


def _check_index(device: Any) -> None:
    index = torch.device(device).index if isinstance(device, str | torch.device) else device
    if index not in (None, 0):
        raise RuntimeError(f"invalid device {device}: there is one fleet, of index 0")


def fill_module() -> None:
    """Puts all of this into `torch.fleet`."""
    functions = (
        device, is_available, is_initialized, device_count, current_device, set_device, get_device_name, synchronize,
        get_amp_supported_dtype, _is_in_bad_fork, random.manual_seed, random.initial_seed, random.get_rng_state,
        random.set_rng_state,
    )  # fmt: skip
    for function in functions:
        setattr(device_module, function.__name__, function)
    # Activation checkpoints keep the random state only of devices that say this.
    device_module._initialized = True  # type: ignore[attr-defined]  # a module that is filled here
    # There is one device, so seeding all of them is the same; PyTorch calls this one.
    device_module.manual_seed_all = random.manual_seed  # type: ignore[attr-defined]  # a module that is filled here
