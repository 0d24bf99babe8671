"""Captures what a plain PyTorch program does on a CPU, as instructions with the values that they gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from gt_protocol.arguments import (
    Argument,
    Const,
    DeviceArg,
    DtypeArg,
    FloatSlot,
    LayoutArg,
    ListArg,
    MemoryFormatArg,
    Operand,
)
from gt_protocol.blocks import Call, NewTensor, NoTensor, Output, SameAs, TensorMeta
from gt_protocol.operators import OperatorTable

#: Reads and constants, which the client itself sees to.
_CLIENT_OWN = ("aten::_local_scalar_dense", "aten::lift_fresh")


@dataclass
class Recorded:
    """One instruction.

    Attributes:
        call: The call.
        operands: Numbers of the operands.
        new: Numbers of the new tensors.
        floats: Its floats.
        random: Whether it draws random numbers.
        expected: Value afterwards of each tensor that is new or written to, by number.
    """

    call: Call
    operands: tuple[int, ...]
    new: tuple[int, ...]
    floats: tuple[float, ...]
    random: bool
    expected: dict[int, torch.Tensor]


@dataclass
class Recording:
    """A captured program.

    Attributes:
        instructions: What it did.
        inputs: Value at the beginning of each tensor that it did not make, by number.
        numbers: Number of each tensor that was named beforehand.
    """

    instructions: list[Recorded] = field(default_factory=list)
    inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


def meta_of(tensor: torch.Tensor, offset: bool = True) -> TensorMeta:
    """A tensor's metadata."""
    start = tensor.storage_offset() if offset else 0
    return TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), start, str(tensor.dtype).removeprefix("torch."))


class CallEncoder:
    """Writes the arguments of one call.

    Args:
        number: Gives the number of a tensor.
    """

    def __init__(self, number: Callable[[torch.Tensor], int]) -> None:
        self._number = number
        self.tensors: list[torch.Tensor] = []
        self.operands: list[int] = []
        self.floats: list[float] = []

    def argument(self, value: object) -> Argument:
        """An argument."""
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            self.operands.append(self._number(value))
            return Operand(len(self.operands) - 1)
        if isinstance(value, float):
            self.floats.append(value)
            return FloatSlot(len(self.floats) - 1)
        if isinstance(value, list | tuple):
            return ListArg(tuple(self.argument(item) for item in value))
        for kind, made in ((torch.dtype, DtypeArg), (torch.memory_format, MemoryFormatArg), (torch.layout, LayoutArg)):
            if isinstance(value, kind):
                return made(str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return DeviceArg()
        assert value is None or isinstance(value, bool | int | str), value
        return Const(value)


class Capture(TorchDispatchMode):
    """Records every operator that runs within it.

    Args:
        operators: The operator table.
        seed: Seed of the random numbers; the n-th random instruction draws from (seed, n).
    """

    def __init__(self, operators: OperatorTable, seed: int = 0) -> None:
        super().__init__()
        self.recording = Recording()
        self._operators = operators
        self._seed = seed
        self._counter = 0
        self._numbers: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled; to say so spares the import of the compiler, which takes longer than all tests."""
        return False

    def name(self, key: str, tensor: torch.Tensor) -> None:
        """Gives an input a name."""
        self.recording.numbers[key] = self._known(tensor)

    def _known(self, tensor: torch.Tensor) -> int:
        number = self._numbers.get(id(tensor))
        if number is None:
            number = self._add(tensor)
            self.recording.inputs[number] = tensor.detach().clone()
        return number

    def _add(self, tensor: torch.Tensor) -> int:
        # Tensors are kept alive, so that their identity stays theirs.
        self._alive.append(tensor)
        number = self._numbers[id(tensor)] = len(self._numbers)
        return number

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if name in _CLIENT_OWN or not name.startswith("aten::"):
            return func(*args, **kwargs)
        return self._record(name, func, args, kwargs)

    def emit(self, name: str, run: Callable[..., object], *args: object) -> object:
        """Records one instruction that is computed by a function instead of an operator of its own."""
        with _disable_current_modes():
            return self._record(name, run, args, {})

    def _record(self, name: str, func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]):
        operator = self._operators.get(name)
        assert operator is not None, name
        encoder = CallEncoder(self._known)
        encoded = tuple(encoder.argument(value) for value in args)
        named = tuple((key, encoder.argument(value)) for key, value in sorted(kwargs.items()))
        if operator.random:
            torch.manual_seed(self._seed * 1_000_003 + self._counter)
            self._counter += 1
        result = func(*args, **kwargs)
        flat = [result] if isinstance(result, torch.Tensor) else list(result or ())
        outputs, new = self._outputs(flat, encoder.tensors, operator.view)
        call = Call(operator.index, encoded, named, tuple(outputs))
        expected = {self._numbers[id(tensor)]: tensor.detach().clone() for tensor in flat if tensor is not None}
        if "empty" in name:
            expected = {}
        if operator.writes:
            expected |= {self._numbers[id(tensor)]: tensor.detach().clone() for tensor in encoder.tensors}
        self.recording.instructions.append(
            Recorded(call, tuple(encoder.operands), tuple(new), tuple(encoder.floats), operator.random, expected)
        )
        return result

    def _outputs(
        self, flat: Sequence[torch.Tensor | None], operands: Sequence[torch.Tensor], view: bool
    ) -> tuple[list[Output], list[int]]:
        outputs: list[Output] = []
        new: list[int] = []
        for tensor in flat:
            same = next((k for k, operand in enumerate(operands) if operand is tensor), -1)
            if tensor is None:
                outputs.append(NoTensor())
            elif same >= 0:
                outputs.append(SameAs(same))
            else:
                base = self._base(tensor, operands) if view else -1
                outputs.append(NewTensor(meta_of(tensor, base >= 0), base))
                new.append(self._add(tensor))
        return outputs, new

    @staticmethod
    def _base(tensor: torch.Tensor, operands: Sequence[torch.Tensor]) -> int:
        own = tensor.untyped_storage()._cdata
        return next((k for k, operand in enumerate(operands) if operand.untyped_storage()._cdata == own), -1)
