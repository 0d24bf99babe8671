"""Sample inputs from the CPU to the fleet, with their strides, offsets and aliases; results as plain lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


class Mover:
    """Moves the arguments of one call; tensors that share memory share it afterwards."""

    def __init__(self) -> None:
        self._bases: dict[int, torch.Tensor] = {}

    def move(self, value: Any) -> Any:
        """The same argument on the fleet."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device("fleet") if isinstance(value, torch.device) else "fleet"
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self.move(item) for item in value)
        if isinstance(value, dict):
            return {name: self.move(item) for name, item in value.items()}
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach()
        if tensor.layout is not torch.strided:
            return tensor.to("fleet")
        if plain.is_neg():
            moved = torch._neg_view(self._strided(torch._neg_view(plain)))
        elif plain.is_conj():
            moved = self._strided(plain.conj()).conj()
        else:
            moved = self._strided(plain)
        return moved.requires_grad_(tensor.requires_grad)

    def _strided(self, plain: torch.Tensor) -> torch.Tensor:
        storage = plain.untyped_storage()
        base = self._bases.get(storage._cdata)
        if base is None:
            whole = torch.empty(0, dtype=plain.dtype).set_(storage)
            base = self._bases[storage._cdata] = whole.to("fleet")
        if base.dtype != plain.dtype:
            base = base.view(plain.dtype)
        return base.as_strided(plain.shape, plain.stride(), plain.storage_offset())


def flat(value: Any) -> Iterator[Any]:
    """The values in a nested result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    else:
        yield value
