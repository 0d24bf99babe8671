"""A session within the process: decodes blocks as the dispatcher does, and runs them with PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

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
from gt_protocol.blocks import (
    ENTER,
    EXIT,
    FREE,
    PLACE,
    Bindings,
    Body,
    Call,
    NewTensor,
    NoTensor,
    SameAs,
    TensorMeta,
    decode_body,
    digest,
    is_floating,
)
from gt_protocol.operators import operator_table
from gt_protocol.wire import CHUNK_BYTES, Buffer


class RemoteFailure(RuntimeError):
    """An instruction failed when it was run."""


@dataclass
class FetchedValue:
    dtype: str
    axis: int
    parts: list[tuple[tuple[int, ...], list[Buffer]]]


@dataclass
class Sent:
    """A block as it was sent."""

    body: bytes
    digest: bytes
    bindings: Bindings
    decoded: Body
    sources: tuple[Any, ...]


@dataclass
class Loopback:
    """Runs everything at once, and keeps what came."""

    tensors: dict[int, Any] = field(default_factory=dict)
    blocks: list[Sent] = field(default_factory=list)
    placed: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    trace: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)
    uploads: int = 0
    fetched: list[int] = field(default_factory=list)
    upload_regions: list[tuple[str, ...]] = field(default_factory=list)
    restrided: set[str] = field(default_factory=set)
    interrupts: list[type[BaseException]] = field(default_factory=list)
    run: bool = True
    accepted: Bindings | None = None
    requests: Iterator[int] = field(default_factory=lambda: count(1))
    answers: dict[int, Any] = field(default_factory=dict)

    def send_block(self, body: bytes, bindings: Bindings, sources: tuple[Any, ...]) -> None:
        if bindings is self.accepted:
            return
        if self.interrupts:
            raise self.interrupts.pop()
        self.accepted = bindings
        if not self.run:
            return
        decoded = decode_body(body, len(operator_table()))
        assert len(bindings.inputs) == decoded.inputs
        assert len(bindings.floats) == decoded.floats
        assert len(bindings.ints) == decoded.ints
        assert len(sources) == decoded.instructions
        self.blocks.append(Sent(body, digest(body), bindings, decoded, sources))
        _Runner(self, decoded, bindings).walk()
        for request, tensor in bindings.reads:
            self.answers[request] = self.tensors[tensor]

    def upload(self, tensor: int, meta: TensorMeta, data: memoryview) -> None:
        assert tensor not in self.tensors
        self.uploads += 1
        self.upload_regions.append(tuple(self.regions))
        dtype = getattr(torch, meta.dtype)
        value = torch.empty_strided(meta.shape, meta.strides, dtype=dtype)
        if len(data):
            value.copy_(torch.frombuffer(bytearray(data), dtype=dtype).view(meta.shape))
        self.tensors[tensor] = value

    def fetch(self, ask: Callable[[int], None]) -> FetchedValue:
        request = next(self.requests)  # one step, since any thread may read
        ask(request)
        value = self.answers.pop(request)
        self.fetched.append(0 if isinstance(value, Exception) else value.numel())
        if isinstance(value, Exception):
            raise RemoteFailure(str(value)) from value
        axis = 0
        parts = list(value.tensor_split(2)) if value.dim() and value.shape[0] > 1 else [value]
        return FetchedValue(
            str(value.dtype).removeprefix("torch."), axis, [(tuple(part.shape), _frames(part)) for part in parts]
        )

    @property
    def digests(self) -> list[bytes]:
        return [block.digest for block in self.blocks]


def _frames(value: torch.Tensor) -> list[Buffer]:
    dense = torch.empty(value.shape, dtype=value.dtype).copy_(value)
    data = bytes(dense.view(-1).view(torch.uint8).numpy()) if dense.numel() else b""
    return [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]


class _Runner:
    """Walks one block."""

    def __init__(self, session: Loopback, body: Body, bindings: Bindings) -> None:
        self.session = session
        self.body = body
        self.bindings = bindings
        self.made: list[int] = []
        self.floats = iter(bindings.floats)
        self.ints = iter(bindings.ints)
        self.counter = bindings.counter

    def walk(self) -> None:
        stream, at, session = self.body.stream, 0, self.session
        while at < len(stream):
            code = stream[at]
            at += 1
            if code >= 0:
                end = at + self.body.sizes[code].operands
                self._call(self.body.calls[code], [self._id(ref) for ref in stream[at:end]])
                at = end
            elif code == FREE:
                del session.tensors[self._id(stream[at])]
                at += 1
            elif code == PLACE:
                source, signal = session.tensors[self._id(stream[at])], self.body.signals[stream[at + 1]]
                session.placed.append((signal, tuple(source.shape)))
                self._make(source.view_as(source))
                at += 2
            elif code == ENTER:
                session.regions.append(self.body.signals[stream[at]])
                at += 1
            elif code == EXIT:
                session.regions.pop()
        for tensor in self.bindings.late_frees:
            session.tensors.pop(tensor, None)  # an earlier test's, if the collector came only now

    def _id(self, reference: int) -> int:
        return self.made[reference] if reference >= 0 else self.bindings.inputs[-1 - reference]

    def _make(self, value: Any) -> None:
        number = self.bindings.base + len(self.made)
        assert number not in self.session.tensors
        self.session.tensors[number] = value
        self.made.append(number)

    def _call(self, call: Call, ids: list[int]) -> None:
        operator = operator_table()[call.op]
        self.session.trace.append((tuple(self.session.regions), operator.name))
        operands = [self.session.tensors[number] for number in ids]
        args = [self._argument(argument, operands) for argument in call.args]
        kwargs = {name: self._argument(argument, operands) for name, argument in call.kwargs}
        failed = next((operand for operand in operands if isinstance(operand, Exception)), None)
        results: list[Any] = []
        if operator.random:
            torch.default_generator.manual_seed((self.bindings.seed * 1_000_003 + self.counter) % (1 << 63))
            self.counter += 1
        try:
            if failed is None:
                results = _flatten(_execute(operator.name, args, kwargs))
        except Exception as error:
            failed = error
        self._keep(call, ids, operands, results, failed)

    def _keep(self, call: Call, ids: list[int], operands: list[Any], results: list[Any], failed: Any) -> None:
        name = operator_table()[call.op].name
        if failed is None:
            assert len(results) == len(call.outputs), name
        for position, output in enumerate(call.outputs):
            if isinstance(output, NewTensor):
                self._make(failed if failed is not None else self._checked(name, output, results[position], operands))
            elif isinstance(output, SameAs) and failed is not None:
                self.session.tensors[ids[output.operand]] = failed
            elif isinstance(output, NoTensor) and failed is None:
                assert not isinstance(results[position], torch.Tensor), name

    def _checked(self, name: str, output: NewTensor, value: torch.Tensor, operands: list[Any]) -> torch.Tensor:
        """The client's metadata is what counts: shape and type must agree, strides are made to."""
        meta = output.meta
        assert isinstance(value, torch.Tensor), name
        if value.numel() == 0 and name == "aten::native_batch_norm":
            value = value.new_zeros(meta.shape)  # statistics of the batch, which evaluation on the CPU leaves out
        assert tuple(value.shape) == meta.shape, (name, value.shape, meta)
        assert value.dtype == getattr(torch, meta.dtype), (name, value.dtype, meta)
        if output.base >= 0:
            assert value.untyped_storage().data_ptr() == operands[output.base].untyped_storage().data_ptr(), name
            assert value.storage_offset() == meta.offset, (name, value.storage_offset(), meta)
        if value.stride() != meta.strides and value.numel() > 1:
            significant = [step for size, step in zip(meta.shape, meta.strides, strict=True) if size > 1]
            if significant != [step for size, step in zip(value.shape, value.stride(), strict=True) if size > 1]:
                assert output.base < 0, (name, value.stride(), meta)
                self.session.restrided.add(name)
                value = torch.empty_strided(meta.shape, meta.strides, dtype=value.dtype).copy_(value)
        return value

    def _argument(self, argument: Argument, operands: list[Any]) -> Any:
        if isinstance(argument, Operand):
            return operands[argument.index]
        if isinstance(argument, FloatSlot):
            return next(self.floats)
        if isinstance(argument, Const):
            return argument.value
        if isinstance(argument, DtypeArg | MemoryFormatArg | LayoutArg):
            return getattr(torch, argument.name)
        if isinstance(argument, DeviceArg):
            return torch.device("cpu")
        if isinstance(argument, ComplexConst):
            return complex(argument.real, argument.imag)
        if isinstance(argument, ScalarTensor):
            number = next(self.floats) if is_floating(argument.dtype) else next(self.ints)
            return torch.tensor(number, dtype=getattr(torch, argument.dtype))
        assert isinstance(argument, ListArg)
        return [self._argument(item, operands) for item in argument.items]


def _flatten(value: Any) -> list[Any]:
    return [item for part in value for item in _flatten(part)] if isinstance(value, list | tuple) else [value]


_aten = torch.ops.aten


def _execute(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    base, _, overload = name.removeprefix("aten::").partition(".")
    own = _OWN.get(base)
    with torch.no_grad():
        if own is not None:
            return own(*args, **kwargs)
        func = getattr(getattr(_aten, base), overload or "default")
        result = func(*args, **kwargs)
    return result if func._schema.returns else []


def _linear_backward(input: Any, grad: Any, weight: Any, mask: list[bool]) -> tuple[Any, Any, Any]:
    flat = grad.reshape(-1, grad.shape[-1])
    return (
        grad @ weight if mask[0] else None,
        flat.t() @ input.reshape(-1, input.shape[-1]) if mask[1] else None,
        flat.sum(0) if mask[2] else None,
    )


def _attend(query: Any, key: Any, bias: Any, is_causal: bool, scale: float | None) -> Any:
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
    return scores if bias is None else scores + bias


def _attention(
    query: Any, key: Any, value: Any, bias: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    debug: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    scores = _attend(query, key, bias, is_causal, scale)
    empty = torch.empty(0, dtype=torch.int64)
    meta = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(
        query.to("meta"), key.to("meta"), value.to("meta"), None, dropout_p, is_causal, debug, scale=scale
    )
    others = [torch.zeros(item.shape, dtype=item.dtype) if isinstance(item, torch.Tensor) else item for item in meta]
    del empty
    return [scores.softmax(-1) @ value, scores.logsumexp(-1), *others[2:]]


def _attention_backward(
    grad: Any, query: Any, key: Any, value: Any, bias: Any, mask: list[bool], out: Any, logsumexp: Any, cum_q: Any,
    cum_k: Any, max_q: Any, max_k: Any, dropout_p: float, is_causal: bool, seed: Any, offset: Any, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    # Written out, since this may run below autograd.
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    weights = _attend(query, key, bias, is_causal, scale).softmax(-1)
    grad_weights = grad @ value.transpose(-2, -1)
    grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True))
    grads = (
        grad_scores @ key * scale,
        grad_scores.transpose(-2, -1) @ query * scale,
        weights.transpose(-2, -1) @ grad,
        grad_scores.sum_to_size(bias.shape) if bias is not None else None,
    )
    return [part if wanted else None for part, wanted in zip(grads, mask, strict=True)]


_OWN = {
    "linear_backward": _linear_backward,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "_scaled_dot_product_fused_attention_overrideable_backward": _attention_backward,
}
