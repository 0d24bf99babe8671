"""The step that calls an operator, and how its arguments are made ready once and filled in each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import torch

from gt_protocol.arguments import (
    Argument,
    ComplexConst,
    Const,
    DeviceArg,
    DtypeArg,
    FloatConst,
    FloatSlot,
    LayoutArg,
    ListArg,
    MemoryFormatArg,
    Operand,
    ScalarTensor,
)
from gt_protocol.blocks import is_floating
from gt_protocol.operators import Operator
from gt_protocol.programs import CallStep
from gt_worker.errors import UnusableArgument
from gt_worker.kernels import kernel, overload
from gt_worker.randomness import instruction_seed
from gt_worker.steps.step import Frame, Locals, Step
from gt_worker.values import dtype_of

#: Makes an argument for one run.
Maker: TypeAlias = Callable[[Locals, Frame], Any]

MEMORY_FORMATS: Final = {
    name: getattr(torch, name) for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
LAYOUTS: Final = {"strided": torch.strided}

K = TypeVar("K", int, str)


class Call(Step):
    """Calls an operator on local registers.

    Args:
        step: The step.
        operator: The operator.
        device: The device, as PyTorch names it.

    Raises:
        UnusableArgument: A constant has no meaning here.
    """

    def __init__(self, step: CallStep, operator: Operator, device: torch.device) -> None:
        self.name = operator.name
        self.function = kernel(operator.name)
        self.results = step.results
        schema = overload(operator.name)._schema
        self.gives_one_tensor = [str(result.type) for result in schema.returns] == ["Tensor"]
        self.counter = step.counter if step.random else -1
        self.args = Template([(position, argument) for position, argument in enumerate(step.args)], device)
        self.kwargs = Template(list(step.kwargs), device)
        arguments = [*step.args, *(argument for _, argument in step.kwargs)]
        self.reads = tuple(index for argument in arguments for index in operands(argument))
        self.makes = tuple(target for target in step.results if target >= 0)
        self.writes = tuple(_written(step, operator, [argument.name for argument in schema.arguments]))

    def run(self, local: Locals, frame: Frame) -> None:
        """See `Step.run`."""
        args, kwargs = self.args.constants, self.kwargs.constants
        if self.args.makers:
            args = args.copy()
            for position, maker in self.args.makers:
                args[position] = maker(local, frame)
        if self.kwargs.makers:
            kwargs = kwargs.copy()
            for name, maker in self.kwargs.makers:
                kwargs[name] = maker(local, frame)
        if self.counter >= 0:
            frame.device.seed(instruction_seed(frame.seed, frame.ints[frame.int_base + self.counter]))
        self._keep(self.function(*args.values(), **kwargs), local)

    def _keep(self, result: Any, local: Locals) -> None:
        if isinstance(result, torch.Tensor) and len(self.results) == 1:
            if self.results[0] >= 0:
                local[self.results[0]] = result
            return
        flat = [] if result is None and not self.results else flatten(result)
        for target, value in zip(self.results, flat, strict=True):
            if target >= 0:
                if not isinstance(value, torch.Tensor):
                    raise UnusableArgument(f"{self.name} gave {value!r} where a tensor is expected")
                local[target] = value


class Template(Generic[K]):
    """Arguments of a call, made ready once.

    Attributes:
        constants: Each argument by its position or name, in order; None where it is filled in each time.
        makers: What fills in the others.
        tensors: Those of them that are a local register and nothing else.
    """

    def __init__(self, arguments: Sequence[tuple[K, Argument]], device: torch.device) -> None:
        self.constants: dict[K, Any] = {}
        self.makers: list[tuple[K, Maker]] = []
        self.tensors: list[tuple[K, int]] = []
        for key, argument in arguments:
            self.constants[key], maker = prepare(argument, device)
            if maker is not None:
                self.makers.append((key, maker))
            if isinstance(argument, Operand):
                self.tensors.append((key, argument.index))


def prepare(argument: Argument, device: torch.device) -> tuple[Any, Maker | None]:
    """Makes an argument ready: its value if it is always the same, else what makes it.

    Raises:
        UnusableArgument: A constant has no meaning here.
    """
    if isinstance(argument, Operand):
        index = argument.index
        return None, lambda local, frame: local[index]
    if isinstance(argument, FloatSlot):
        slot = argument.index
        return None, lambda local, frame: frame.floats[frame.float_base + slot]
    if isinstance(argument, ListArg):
        return _prepare_list(argument, device)
    if isinstance(argument, ScalarTensor):
        return None, _scalar_maker(argument)
    return _constant(argument, device), None


def _prepare_list(argument: ListArg, device: torch.device) -> tuple[Any, Maker | None]:
    prepared = [prepare(item, device) for item in argument.items]
    if all(maker is None for _, maker in prepared):
        return [value for value, _ in prepared], None
    makers = [maker or _always(value) for value, maker in prepared]
    return None, lambda local, frame: [maker(local, frame) for maker in makers]


def _always(value: Any) -> Maker:
    return lambda local, frame: value


def _scalar_maker(argument: ScalarTensor) -> Maker:
    dtype, index = dtype_of(argument.dtype), argument.index
    if is_floating(argument.dtype):
        return lambda local, frame: torch.tensor(frame.floats[frame.float_base + index], dtype=dtype)
    return lambda local, frame: torch.tensor(frame.ints[frame.int_base + index], dtype=dtype)


def _constant(argument: Argument, device: torch.device) -> Any:
    if isinstance(argument, Const | FloatConst):
        return argument.value
    if isinstance(argument, DtypeArg):
        return dtype_of(argument.name)
    if isinstance(argument, DeviceArg):
        return device
    if isinstance(argument, ComplexConst):
        return complex(argument.real, argument.imag)
    if isinstance(argument, MemoryFormatArg | LayoutArg):
        known = MEMORY_FORMATS if isinstance(argument, MemoryFormatArg) else LAYOUTS
        if argument.name not in known:
            raise UnusableArgument(f"{argument.name!r} is not supported; use one of {', '.join(known)}")
        return known[argument.name]
    raise UnusableArgument(f"{type(argument).__name__} can't be an argument here")


def operands(argument: Argument) -> Iterator[int]:
    """Local registers that an argument names."""
    if isinstance(argument, Operand):
        yield argument.index
    elif isinstance(argument, ListArg):
        for item in argument.items:
            yield from operands(item)


def flatten(result: Any) -> Iterator[Any]:
    """The results of an operator, one after another, as a routine counts them."""
    if isinstance(result, tuple | list):
        for item in result:
            yield from flatten(item)
    else:
        yield result


def _written(step: CallStep, operator: Operator, names: Sequence[str]) -> Iterator[int]:
    """Local registers that the operator writes to, by the positions in its schema."""
    by_name = dict(step.kwargs)
    for position in operator.writes:
        argument = step.args[position] if position < len(step.args) else by_name.get(names[position])
        if argument is not None:
            yield from operands(argument)
