"""The checks of one pair. Each raises where the fleet differs from the CPU."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from unittest import mock

import torch

from tests.optest.compare import Different, require_same
from tests.optest.moving import Mover, flat
from tests.optest.pairs import Pair

#: Samples of one pair to run, taken evenly from all.
MAX_SAMPLES: Final = 40
#: Operators whose results hold what happened to be in memory.
_UNINITIALISED: Final = ("empty", "new_empty")
CPU: Final = torch.device("cpu")


@dataclass(frozen=True)
class Sample:
    """A call of an operator."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    differentiable: Callable[[Any], Any] = lambda result: result
    """Takes from a result what has gradients."""
    device: torch.device = CPU
    """Where the call makes tensors."""

    def moved(self) -> Sample:
        """The same call on the fleet."""
        mover = Mover()
        moved = mover.move([self.input, self.args, self.kwargs])
        return Sample(*moved, self.differentiable, torch.device("fleet"))

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensors among the arguments."""
        values = flat([self.input, self.args, self.kwargs])
        return [value for value in values if isinstance(value, torch.Tensor)]

    def describe(self) -> str:
        """The call in a line."""

        def show(value: Any) -> str:
            if isinstance(value, torch.Tensor):
                return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}/{value.stride()}"
            if isinstance(value, list | tuple):
                return f"[{', '.join(map(show, value))}]"
            return repr(value)

        words = [show(self.input), *map(show, self.args), *(f"{k}={show(v)}" for k, v in self.kwargs.items())]
        return ", ".join(words)[:300]


def samples(pair: Pair, *, gradients: bool = False) -> Iterator[Sample]:
    """The pair's sample inputs."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = list(pair.info.sample_inputs("cpu", pair.dtype, requires_grad=gradients))
    step = max(1, len(made) // MAX_SAMPLES)
    for sample in islice(made, 0, None, step):
        yield Sample(sample.input, tuple(sample.args), dict(sample.kwargs), sample.output_process_fn_grad)


def check_forward(pair: Pair) -> int:
    """Compares results; returns how many samples were compared.

    Raises:
        Different: A result differs.
        Exception: Whatever the operator raised on the fleet and not on the CPU.
    """
    count = 0
    for sample in samples(pair):
        moved = sample.moved()
        try:
            expected = _call(pair.info.op, sample)
        except Exception:  # PyTorch itself does not support the sample: nothing to compare with
            continue
        count += 1
        with _Explained(sample):
            actual = _call(pair.info.op, moved)
            require_same(expected, actual, values=not _is_arbitrary(pair, sample, expected))
            # An operator that writes to its arguments must have written the same.
            if not _draws(pair):
                require_same(sample.tensors, moved.tensors)
    return count


def check_backward(pair: Pair) -> int:
    """Compares gradients; returns how many samples were compared.

    Raises:
        Different: A gradient differs.
        Exception: Whatever was raised on the fleet and not on the CPU.
    """
    count = 0
    for sample in samples(pair, gradients=True):
        moved = sample.moved()
        try:
            expected = _gradients(pair, sample)
        except Exception:  # as above
            continue
        if expected is None:
            continue
        count += 1
        with _Explained(sample):
            require_same(expected, _gradients(pair, moved), values=not _draws(pair))
    return count


def check_variant(pair: Pair, operator: Any) -> int:
    """Compares an in-place variant; returns how many samples were compared."""
    count = 0
    for sample in samples(pair):
        moved = sample.moved()
        if not isinstance(sample.input, torch.Tensor):
            continue
        try:
            expected = _call(operator, sample)
        except Exception:  # as above
            continue
        count += 1
        with _Explained(sample):
            actual = _call(operator, moved)
            require_same(expected, actual, values=not _draws(pair))
            if actual is not moved.input:
                raise Different("the in-place variant returns another tensor")
    return count


def check_out(pair: Pair) -> int:
    """Compares the `out=` variant, with empty outputs and with ones of the right shape."""
    count = 0
    for sample in islice(samples(pair), 12):
        moved = sample.moved()
        try:
            expected = _call(pair.info.op, sample)
            outputs = [torch.empty_like(value) for value in flat(expected)]
            _call(pair.info.op, sample, out=_shaped(expected, iter(outputs)))
        except Exception:  # as above
            continue
        count += 1
        with _Explained(sample):
            targets = [torch.zeros_like(value, device="fleet") for value in outputs]
            _call(pair.info.op, moved, out=_shaped(expected, iter(targets)))
            require_same(outputs, targets, values=not _is_arbitrary(pair, sample, expected))
    return count


def check_errors(pair: Pair) -> int:
    """Compares the type of the error that wrong inputs give at the call."""
    count = 0
    if pair.info.error_inputs_func is None:
        return 0
    for wrong in pair.info.error_inputs("cpu"):
        given = wrong.sample_input
        sample = Sample(given.input, tuple(given.args), dict(given.kwargs))
        if any(tensor.device.type != "cpu" for tensor in sample.tensors):
            continue
        moved = sample.moved()
        try:
            _call(pair.info.op, sample)
        except Exception as error:
            expected = type(error)
        else:
            continue
        count += 1
        with _Explained(sample):
            try:
                _call(pair.info.op, moved)
            except expected:
                continue
            except Exception as error:
                raise Different(f"raises {type(error).__name__} ({error}), the CPU {expected.__name__}") from error
            raise Different(f"raises nothing, the CPU {expected.__name__}")
    return count


class _Explained:
    """Adds the sample to what is raised."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            error.add_note(f"sample: {self._sample.describe()}")


def _call(operator: Any, sample: Sample, **more: Any) -> Any:
    torch.manual_seed(2)
    with warnings.catch_warnings(), sample.device:
        warnings.simplefilter("ignore")
        return operator(sample.input, *sample.args, **sample.kwargs, **more)


def _gradients(pair: Pair, sample: Sample) -> list[torch.Tensor | None] | None:
    result = sample.differentiable(_call(pair.info.op, sample))
    outputs = [value for value in flat(result) if isinstance(value, torch.Tensor) and value.requires_grad]
    inputs = [value for value in sample.tensors if value.requires_grad]
    if not outputs or not inputs:
        return None
    seeds = []
    for output in outputs:
        steps = torch.linspace(0.5, 1.5, max(output.numel(), 1), dtype=torch.float32)[: output.numel()]
        seeds.append(steps.to(output.dtype).reshape(output.shape).to(output.device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


def _shaped(pattern: Any, values: Iterator[torch.Tensor]) -> Any:
    if isinstance(pattern, torch.Tensor):
        return next(values)
    return tuple(_shaped(item, values) for item in pattern)


def _is_arbitrary(pair: Pair, sample: Sample, expected: Any) -> bool:
    return pair.name.startswith(_UNINITIALISED) or _draws(pair)


_drawing: dict[str, bool] = {}


def _draws(pair: Pair) -> bool:
    """Whether an operator draws random numbers: with another seed it gives something else."""
    known = _drawing.get(pair.name)
    if known is None:
        known = _drawing[pair.name] = any(map(_depends_on_seed(pair), samples(pair)))
    return known


def _depends_on_seed(pair: Pair) -> Callable[[Sample], bool]:
    seed = torch.manual_seed

    def depends(sample: Sample) -> bool:
        results = []
        for shift in (0, 1):
            # Some entries of `op_db` seed by themselves.
            with mock.patch("torch.manual_seed", lambda number, shift=shift: seed(number + shift)):
                try:
                    results.append(list(flat(_call(pair.info.op, copy.deepcopy(sample)))))
                except Exception:
                    return False
        return not all(map(_identical, *results))

    return depends


def _identical(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor):
        return bool(first == second) or first != first
    return first.layout is torch.strided and torch.allclose(first, second, equal_nan=True)
