"""Matrix products and what goes with them: linear layers and convolutions, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gt_dispatcher.planner.axes import Axes, Names, Result, by_axes, labelled
from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.shards import chunk_sizes
from gt_dispatcher.planner.strategy import LocalArgument, Rule, Strategy
from gt_protocol.arguments import Const, ListArg
from gt_protocol.blocks import NewTensor

_INNER: Final = frozenset({"k"})


def _product(first: Names, second: Names, result: Names) -> Rule:
    """A product of two tensors over the axis `k`."""

    def rule(instruction: Instruction) -> Strategy:
        return by_axes(instruction, Axes((first, second), (Result(result, _INNER),)))

    return rule


def _added_product(first: Names, second: Names, result: Names) -> Rule:
    """A product that is added to a third tensor, the first argument, which is broadcast."""

    def rule(instruction: Instruction) -> Strategy:
        shape, sums = instruction.shape(0), instruction.new[0].meta.shape
        names = _broadcast(shape, sums, result)
        return by_axes(instruction, Axes((names, first, second), (Result(result, _INNER),), added=frozenset({0})))

    return rule


def _broadcast(shape: tuple[int, ...], whole: tuple[int, ...], names: Names) -> Names:
    """Names of the axes of a tensor that is broadcast to one with names."""
    extra = len(whole) - len(shape)
    return tuple(
        name if size == want else "" for size, want, name in zip(shape, whole[extra:], names[extra:], strict=True)
    )


def matmul(instruction: Instruction) -> Strategy:
    """`matmul` of tensors with the same leading axes, or of one with leading axes and a matrix."""
    first, second = instruction.shape(0), instruction.shape(1)
    if len(first) < 2 or len(second) < 2:
        raise NoRule("a product with a vector")
    leading = labelled(len(first) - 2, "b")
    if len(second) > 2 and second[:-2] != first[:-2]:
        raise NoRule("the leading axes are broadcast")
    other = leading if len(second) > 2 else ()
    result = Result((*leading, "m", "n"), _INNER)
    return by_axes(instruction, Axes(((*leading, "m", "k"), (*other, "k", "n")), (result,)))


def linear(instruction: Instruction) -> Strategy:
    """`linear(input, weight, bias)`: (..., k) times (n, k), plus (n)."""
    leading = labelled(len(instruction.shape(0)) - 1, "b")
    inputs: tuple[Names, ...] = ((*leading, "k"), ("n", "k"), ("n",))
    count = len(instruction.operands)
    return by_axes(
        instruction,
        Axes(inputs[:count], (Result((*leading, "n"), _INNER),), added=frozenset({2}) if count > 2 else frozenset()),
    )


def linear_backward(instruction: Instruction) -> Strategy:
    """`linear_backward(input, grad, weight, mask)`: weights' gradients are sums over all leading axes."""
    leading = labelled(len(instruction.shape(0)) - 1, "b")
    rows = frozenset(leading)
    results = (
        Result((*leading, "k"), frozenset({"n"})),
        Result(("n", "k"), rows),
        Result(("n",), rows),
    )
    inputs = ((*leading, "k"), (*leading, "n"), ("n", "k"))
    return by_axes(instruction, Axes(inputs, _wanted(instruction, results)))


def convolution(instruction: Instruction) -> Strategy:
    """`convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)`."""
    source, kernel = _convolution_names(instruction, instruction.shape(0), 6, 8)
    outer = "o" if "o" in kernel else ""
    spatial = ("",) * (len(source) - 2)
    inputs: tuple[Names, ...] = (source, kernel, (outer,))
    count = len(instruction.operands)
    result = Result(("n", outer, *spatial), frozenset({"c"}))
    added = frozenset({2}) if count > 2 else frozenset[int]()
    return by_axes(instruction, Axes(inputs[:count], (result,), added=added, solid=frozenset({"c", "o"})))


def convolution_backward(instruction: Instruction) -> Strategy:
    """`convolution_backward(grad, input, weight, bias_sizes, ..., transposed, output_padding, groups, mask)`."""
    source, kernel = _convolution_names(instruction, instruction.shape(1), 7, 9)
    outer = "o" if "o" in kernel else ""
    grad = ("n", outer, *source[2:])
    results = (
        Result(source, frozenset({"o"})),
        Result(kernel, frozenset({"n"})),
        Result((outer,), frozenset({"n"})),
    )

    def local(name: str) -> Mapping[int, LocalArgument]:
        sizes = instruction.integers(3)
        if name != "o" or sizes is None:
            return {}
        parts = chunk_sizes(sizes[0], instruction.mesh.size)
        return {3: lambda position: ListArg((Const(parts[position]),))}

    axes = Axes((grad, source, kernel), _wanted(instruction, results), solid=frozenset({"c", "o"}), local=local)
    return by_axes(instruction, axes)


def _convolution_names(
    instruction: Instruction, shape: tuple[int, ...], transposed: int, groups: int
) -> tuple[Names, Names]:
    """Names for the input and the kernel; channels can only be split where there is one group."""
    spatial = ("",) * (len(shape) - 2)
    if instruction.integer(groups) != 1:
        return ("n", "", *spatial), ("", "", *spatial)
    kernel = ("c", "o") if instruction.constant(transposed) else ("o", "c")
    return ("n", "c", *spatial), (*kernel, *spatial)


def _wanted(instruction: Instruction, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """The results that the instruction asks for."""
    outputs = instruction.call.outputs
    return tuple(result for result, output in zip(results, outputs, strict=True) if isinstance(output, NewTensor))


RULES: Final[Mapping[str, Rule]] = {
    "aten::mm": _product(("m", "k"), ("k", "n"), ("m", "n")),
    "aten::bmm": _product(("b", "m", "k"), ("b", "k", "n"), ("b", "m", "n")),
    "aten::mv": _product(("m", "k"), ("k",), ("m",)),
    "aten::dot": _product(("k",), ("k",), ()),
    "aten::addmm": _added_product(("m", "k"), ("k", "n"), ("m", "n")),
    "aten::baddbmm": _added_product(("b", "m", "k"), ("b", "k", "n"), ("b", "m", "n")),
    "aten::addmv": _added_product(("m", "k"), ("k",), ("m",)),
    "aten::matmul": matmul,
    "aten::linear": linear,
    "aten::linear_backward": linear_backward,
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
}
