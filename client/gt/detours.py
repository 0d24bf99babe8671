"""What is called in place of an instruction when a call can't be one as it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from gt._torch import decomposition, without_writing
from gt.blocks.handles import Handle
from gt.errors import UnsupportedError
from gt.metadata import FLEET, meta_tensor, metas
from gt.specials import special
from gt.tensor import FleetTensor, adopt, wrap, wrap_pristine

_empties: Final[dict[Any, Any]] = {}
_spelt_out: Final[dict[Any, dict[Any, Any]]] = {}
_PLAIN_TYPES: Final = (FleetTensor, torch.Tensor, torch.nn.Parameter)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """All tensors among values and lists of values."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def is_unknown_type(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a subclass that has to say itself what an operator does."""
    return type(tensor) not in _PLAIN_TYPES and type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def decline(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Leaves the call to the other tensor type in it."""
    return NotImplemented


def again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the operator anew, after its operands have changed."""
    return func(*args, **kwargs)


@special("detach", "alias", "lift_fresh")
def share(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gives a new tensor object for the same tensor: a third of all calls in a backward pass, and no instruction."""
    return wrap(args[0]._h)


@special("_conj")
def _conjugate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Conjugates at once: a view that is only marked would need the mark on every worker's tensor."""
    return torch.ops.aten._conj_physical.default(*args)


@special("_neg_view")
def _negate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Negates at once, for the same reason."""
    return torch.ops.aten.neg.default(*args)


def decompose(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Takes a composite operator apart, as autograd does where it is on."""
    return func.decompose(*args, **kwargs)


def run_decomposition(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Computes an operator by others."""
    rule = decomposition(func)
    assert rule is not None
    return rule(*args, **kwargs)


def on_meta(value: Any) -> Any:
    """An argument with its tensors replaced by ones on PyTorch's `meta` device."""
    if isinstance(value, FleetTensor):
        return meta_tensor(value._h.meta)
    if isinstance(value, list | tuple):
        return [on_meta(item) for item in value]
    return value


def ask_metadata(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answers a question about shapes and types."""
    return func(*on_meta(args), **{name: on_meta(value) for name, value in kwargs.items()})


def materialize(handle: Handle) -> None:
    """Has an instruction make a tensor that was only promised."""
    meta = handle.meta.twin
    assert meta is not None
    made = _make_empty(meta.shape, meta.strides, meta.dtype)
    number = made._h.id
    made._h.id = 0
    handle.id = number
    handle.meta = meta


def _make_empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> FleetTensor:
    from gt.dispatch import run  # the hot path needs this module to load

    func = torch.ops.aten.empty_strided.default
    made: FleetTensor = run(func, _empties, (list(shape), list(strides)), {"dtype": dtype, "device": FLEET})
    return made


def spell_out_dtype(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an operator so that its result has the client's default element type on any worker."""
    from gt.dispatch import run  # the hot path needs this module to load

    default = torch.get_default_dtype()
    if any(argument.name == "dtype" for argument in func._schema.arguments):
        return run(func, _spelt_out.setdefault(func, {}), args, {**kwargs, "dtype": default})
    return func(*[_as_floating(value, default) for value in args], **kwargs)


def _as_floating(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, FleetTensor) and not value.dtype.is_floating_point and not value.dtype.is_complex:
        return value.to(dtype)
    return value


def make_elsewhere(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Makes a tensor on another device after the pattern of one on the fleet, as `zeros_like(x, device="cpu")` does."""
    name = func._schema.name
    if not name.endswith("_like") and "::new_" not in name:
        raise UnsupportedError(f"{func.name()} can't put its result on {kwargs['device']}: use x.to() on the result")
    pattern = [
        torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
        if isinstance(value, FleetTensor)
        else value
        for value in args
    ]
    return func(*pattern, **kwargs)


def reshape_in_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carries out an operator that gives an operand another shape: `t_`, `squeeze_`, or `out=`."""
    view = without_writing(func)
    if view is not None:
        adopt(args[0], view(*args, **kwargs))
        return args[0]
    return _resize_outputs(func, args, kwargs)


@special("resize_")
def _resize_to(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _resize(args[0], tuple(args[1]))


@special("resize_as_")
def _resize_like(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _resize(args[0], tuple(args[1].shape))


def _resize(tensor: FleetTensor, shape: tuple[int, ...]) -> FleetTensor:
    if tuple(tensor.shape) == shape:
        return tensor
    target = torch.empty(shape, dtype=tensor.dtype, device=FLEET)
    kept = min(tensor.numel(), target.numel())
    if kept:
        target.view(-1)[:kept].copy_(tensor.reshape(-1)[:kept])
    adopt(tensor, target)  # type: ignore[arg-type]  # what the device makes is a FleetTensor
    return tensor


def _resize_outputs(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs into new tensors of the right shape, which the empty `out=` tensors then become."""
    trial = {name: on_meta(value) for name, value in kwargs.items()}
    func(*on_meta(args), **trial)
    fresh = dict(kwargs)
    for name, value in kwargs.items():
        if isinstance(value, FleetTensor) and trial[name].shape != value.shape:
            if value.numel():
                raise UnsupportedError(
                    f"out= has shape {tuple(value.shape)}, but the result has {tuple(trial[name].shape)}: "
                    "give a tensor of that shape, or an empty one"
                )
            fresh[name] = wrap_pristine(metas.pristine(metas.of(trial[name])))
    if all(fresh[name] is value for name, value in kwargs.items()):
        raise UnsupportedError(f"{func.name()} changes a tensor's shape in place: use the form that returns the result")
    func(*args, **fresh)
    for name, value in fresh.items():
        if value is not kwargs[name]:
            adopt(kwargs[name], value)
    outputs = [value for value in kwargs.values() if isinstance(value, FleetTensor)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
