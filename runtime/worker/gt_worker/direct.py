"""The short way for routines that are one call of an operator: from and to the worker's registers directly.

An interpreter's loop would cost as much as a small operator itself, so the commonest shapes of a call have a function
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from gt_worker.poison import Value
from gt_worker.steps.call import Call
from gt_worker.steps.step import Frame, Step

Registers: TypeAlias = dict[int, Value]
#: Runs a routine: the worker's registers, the program's code, where the routine's registers stand in it, the frame.
Runner: TypeAlias = Callable[[Registers, Sequence[int], int, Frame], None]


def direct_runner(inputs: int, outputs: int, steps: tuple[Step, ...]) -> Runner | None:
    """The function that runs a routine the short way, or None if it is not one simple call.

    Args:
        inputs: Number of input registers of the routine.
        outputs: Number of its output registers.
        steps: Its steps.
    """
    call = steps[0] if len(steps) == 1 else None
    if not isinstance(call, Call) or call.counter >= 0 or any(index >= inputs for index in call.reads):
        return None
    if outputs == 0 and not call.makes:
        target = -1
    elif outputs == 1 and call.gives_one_tensor and call.results == (inputs,):
        target = inputs
    else:
        return None
    places = [index for _, index in call.args.tensors]
    if len(places) != len(call.reads):
        return None  # tensors in lists or by name
    if target >= 0 and len(places) == len(call.args.constants) and not call.kwargs.constants and len(places) in _PLAIN:
        return _PLAIN[len(places)](call.function, places, target)
    return _mixed(call, target)


def _unary(function: Callable[..., Any], places: list[int], target: int) -> Runner:
    (first,) = places

    def run(registers: Registers, code: Sequence[int], at: int, frame: Frame) -> None:
        registers[code[at + target]] = function(registers[code[at + first]])

    return run


def _binary(function: Callable[..., Any], places: list[int], target: int) -> Runner:
    first, second = places

    def run(registers: Registers, code: Sequence[int], at: int, frame: Frame) -> None:
        registers[code[at + target]] = function(registers[code[at + first]], registers[code[at + second]])

    return run


def _ternary(function: Callable[..., Any], places: list[int], target: int) -> Runner:
    first, second, third = places

    def run(registers: Registers, code: Sequence[int], at: int, frame: Frame) -> None:
        registers[code[at + target]] = function(
            registers[code[at + first]], registers[code[at + second]], registers[code[at + third]]
        )

    return run


def _mixed(call: Call, target: int) -> Runner:
    """Tensors among numbers and constants."""
    function, keywords = call.function, call.kwargs.constants
    template = list(call.args.constants.values())
    tensors = list(call.args.tensors)
    places = {position for position, _ in tensors}
    others = [(position, maker) for position, maker in call.args.makers if position not in places]
    named = call.kwargs.makers

    def run(registers: Registers, code: Sequence[int], at: int, frame: Frame) -> None:
        args = template.copy()
        for position, index in tensors:
            args[position] = registers[code[at + index]]
        for position, maker in others:
            args[position] = maker([], frame)
        kwargs = keywords
        if named:
            kwargs = keywords.copy()
            for name, maker in named:
                kwargs[name] = maker([], frame)
        result = function(*args, **kwargs)
        if target >= 0:
            registers[code[at + target]] = result

    return run


_PLAIN: Final = {1: _unary, 2: _binary, 3: _ternary}
