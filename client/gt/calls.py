"""What happens on a miss: the operator runs once on PyTorch's `meta` device, and becomes a call of a block."""

from __future__ import annotations

from typing import Any, Final

import torch

from gt._torch import DEVICE_TYPE, shares_storage
from gt.errors import UnsupportedError
from gt.keys import is_scalar
from gt.metadata import DTYPE_NAMES, Meta, meta_tensor, metas
from gt.records import Many, New, Record, Same, Value, make_record
from gt.tensor import FleetTensor
from gt_protocol.arguments import (
    Argument,
    ComplexConst,
    Const,
    DeviceArg,
    DtypeArg,
    FloatSlot,
    LayoutArg,
    ListArg,
    MemoryFormatArg,
    Operand,
    ScalarTensor,
)
from gt_protocol.blocks import Call, NewTensor, NoTensor, Output, SameAs, call_size
from gt_protocol.errors import MalformedFrame
from gt_protocol.operators import Operator

META_DEVICE: Final = torch.device("meta")
MAX_INT: Final = (1 << 63) - 1

#: Keyword arguments that say how a copy is made, which is the fleet's own business.
IGNORED: Final = frozenset({"pin_memory", "non_blocking"})

#: Operators that PyTorch lets write to tensors whose elements share memory.
_WRITES_ONE_VALUE: Final = frozenset(
    {"fill_", "zero_", "masked_fill_", "index_fill_", "index_put_", "_index_put_impl_", "triu_", "tril_"}
)


class Reshaped(Exception):  # a turn of control flow, not an error
    """The operator gave an operand another shape in place, which no instruction can do."""


class DefaultDtype(Exception):  # a turn of control flow, not an error
    """The result's type follows from the default element type, which workers do not know."""


class _Arguments:
    """Turns Python arguments into those of a call and those of a run on `meta`."""

    def __init__(self) -> None:
        self.operands: list[FleetTensor] = []
        self.tensors: list[torch.Tensor] = []
        self.metas: list[Meta] = []
        self._floats = 0
        self._ints = 0

    def visit(self, value: Any) -> tuple[Argument, Any]:
        """(argument of the call, argument of the run)."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, float):
            self._floats += 1
            return FloatSlot(self._floats - 1), value
        if isinstance(value, list | tuple):
            pairs = [self.visit(item) for item in value]
            return ListArg(tuple(argument for argument, _ in pairs)), [item for _, item in pairs]
        return _constant(value)

    def _tensor(self, value: torch.Tensor) -> tuple[Argument, Any]:
        if isinstance(value, FleetTensor):
            meta = value._h.meta
            tensor = meta_tensor(meta)
            self.operands.append(value)
            self.tensors.append(tensor)
            self.metas.append(meta)
            return Operand(len(self.operands) - 1), tensor
        if not is_scalar(value):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{DEVICE_TYPE}:0 and {value.device}!"
            )
        name = DTYPE_NAMES[value.dtype]
        if value.dtype.is_floating_point:
            self._floats += 1
            return ScalarTensor(name, self._floats - 1), value
        self._ints += 1
        return ScalarTensor(name, self._ints - 1), value


def _constant(value: Any) -> tuple[Argument, Any]:
    if value is None or isinstance(value, bool | str):
        return Const(value), value
    if isinstance(value, int):
        if abs(value) > MAX_INT:
            raise UnsupportedError(f"{value} has more than 64 bits; use a float or a smaller number")
        return Const(value), value
    if isinstance(value, torch.dtype):
        if value not in DTYPE_NAMES:
            raise UnsupportedError(f"tensors of {value} can't be on the fleet; use a plain numeric type")
        return DtypeArg(DTYPE_NAMES[value]), value
    if isinstance(value, torch.memory_format):
        return MemoryFormatArg(str(value).removeprefix("torch.")), value
    if isinstance(value, torch.layout):
        if value != torch.strided:
            raise UnsupportedError(f"tensors of layout {value} can't be on the fleet; use dense ones (.to_dense())")
        return LayoutArg("strided"), value
    if isinstance(value, torch.device):
        return DeviceArg(), META_DEVICE
    if isinstance(value, complex):
        return ComplexConst(value.real, value.imag), value
    raise UnsupportedError(f"an argument of type {type(value).__name__} can't be sent to the fleet")


class _Results:
    """Turns the results of a run on `meta` into those of a record and of a call."""

    def __init__(self, arguments: _Arguments, *, views: bool) -> None:
        self._arguments = arguments
        self._views = views
        self.outputs: list[Output] = []

    def visit(self, value: Any) -> Any:
        """The record's result; outputs of the call are appended in order."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            return Many(list if isinstance(value, list) else tuple, tuple(self.visit(item) for item in value))
        self.outputs.append(NoTensor())
        return Value(value)

    def _tensor(self, value: torch.Tensor) -> Any:
        base = -1
        for number, operand in enumerate(self._arguments.tensors):
            if operand is value:
                self.outputs.append(SameAs(number))
                return Same(number, fresh=False)
            if base < 0 and shares_storage(operand, value):
                base = number
        meta = metas.of(value)
        if not self._views and base >= 0 and meta is self._arguments.metas[base]:
            return Same(base, fresh=True)
        self.outputs.append(NewTensor(meta.wire, base))
        return New(meta)


def compile_call(func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Record:
    """Makes the record of a call.

    Args:
        func: The ATen overload.
        operator: Its entry in the operator table.
        args: Positional arguments.
        kwargs: Keyword arguments.

    Raises:
        Reshaped: The call changes an operand's shape.
        UnsupportedError: An argument can't be expressed.
        Exception: The call is wrong; the same that PyTorch raises elsewhere.
    """
    arguments = _Arguments()
    _check_targets(func, operator, args, kwargs)
    positional = [arguments.visit(value) for value in args]
    named = [(name, arguments.visit(kwargs[name])) for name in sorted(kwargs) if name not in IGNORED]
    values = [value for _, value in positional], {name: value for name, (_, value) in named}
    output = _run_on_meta(func, *values)
    _check_default_dtype(func, output, values)
    in_place = func._schema.name.endswith("_")
    for tensor, meta in zip(arguments.tensors, arguments.metas, strict=True):
        if tuple(tensor.shape) != meta.shape or (in_place and tensor.stride() != meta.strides):
            raise Reshaped
    emits = bool(operator.writes)
    results = _Results(arguments, views=emits)
    result = results.visit(output) if func._schema.returns else Value(None)
    if not emits and not _only_operands(result):
        emits = True
        results = _Results(arguments, views=True)
        result = results.visit(output)
    call = Call(
        op=operator.index,
        args=tuple(argument for argument, _ in positional),
        kwargs=tuple((name, argument) for name, (argument, _) in named),
        outputs=tuple(results.outputs),
    )
    try:
        call_size(call)
    except MalformedFrame as error:
        # Here, where the program made the call, and not when its block is sent, with all that waits in it.
        raise UnsupportedError(f"{func.name()} can't be sent to the fleet: {error}") from None
    return make_record(call, result, random=operator.random, emits=emits)


def _run_on_meta(func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the operator gives, without values."""
    try:
        output = func(*args, **kwargs)
    except NotImplementedError:
        if func._schema.returns:
            raise
        return None  # it only writes to its operands, so nothing needs to be known of its results
    except RuntimeError:
        # Some operators want all tensors on one device, others the value of a tensor without axes.
        moved = [value.to(META_DEVICE) if isinstance(value, torch.Tensor) else value for value in args]
        if all(value is other for value, other in zip(args, moved, strict=True)):
            raise
        output = func(*moved, **kwargs)
    mask = _gradient_mask(func, args)
    if mask is None:
        return output
    return tuple(value if wanted else None for value, wanted in zip(output, mask, strict=True))


def _check_default_dtype(func: Any, output: Any, values: tuple[list[Any], dict[str, Any]]) -> None:
    """Workers compute with PyTorch's own default, single precision; what depends on another must be spelt out."""
    default = torch.get_default_dtype()
    if default == torch.float32 or not isinstance(output, torch.Tensor) or output.dtype != default:
        return
    torch.set_default_dtype(torch.float32)
    try:
        if _run_on_meta(func, *values).dtype != default:
            raise DefaultDtype
    finally:
        torch.set_default_dtype(default)


def _gradient_mask(func: Any, args: list[Any]) -> list[bool] | None:
    """Which gradients a backward operator is asked for: kernels leave the others out, but not all on `meta` do."""
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if argument.name in ("output_mask", "grad_input_mask") and len(value) == len(func._schema.returns):
            return list(value)
    return None


def _check_targets(func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What an operator writes to must be on the fleet, and have memory of its own for each element."""
    for position in operator.writes:
        target = args[position] if position < len(args) else kwargs.get(func._schema.arguments[position].name)
        for tensor in target if isinstance(target, list | tuple) else (target,):
            if not isinstance(tensor, torch.Tensor):
                continue
            if type(tensor) is not FleetTensor:  # it can take part by its value, but not be written to
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{tensor.device} and {DEVICE_TYPE}:0!"
                )
            if tensor._h.meta.overlaps and func.overloadpacket.__name__ not in _WRITES_ONE_VALUE:
                # PyTorch's kernels refuse it, which a worker would report only when the value is read.
                raise RuntimeError(
                    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                    "location. Please clone() the tensor before performing the operation."
                )


def _only_operands(result: Any) -> bool:
    """Whether a result is made of operands and their no-op views, so that no instruction is needed."""
    if isinstance(result, Many):
        return all(_only_operands(item) for item in result.items)
    return isinstance(result, Same)
