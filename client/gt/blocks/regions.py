"""The regions of a program: what each thread is in, and what the stream of instructions is in."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, TypeAlias

from gt._torch import current_autograd_node, next_node_number
from gt.errors import SignalError
from gt_protocol.blocks import MAX_SIGNAL_LENGTH
from gt_protocol.sharding import ShardingConfig

Stack: TypeAlias = tuple[str, ...]

#: Changes of region to remember for backward passes, in each thread.
MAX_CHANGES: Final = 1 << 16
#: The number of nodes that add up gradients: they belong to no forward call.
NO_FORWARD: Final = (1 << 64) - 1


class _ThreadRegions(threading.local):
    """What one thread is in, and was in when it made each node of the autograd graph."""

    def __init__(self) -> None:
        self.stack: Stack = ()
        self.starts: list[int] = []
        self.stacks: list[Stack] = []

    def change(self, stack: Stack) -> None:
        """Notes that the nodes made from now on belong to `stack`."""
        self.stack = stack
        start = next_node_number()
        if self.starts and self.starts[-1] == start:
            self.stacks[-1] = stack
            return
        if len(self.starts) >= MAX_CHANGES:
            del self.starts[: MAX_CHANGES // 2], self.stacks[: MAX_CHANGES // 2]
        self.starts.append(start)
        self.stacks.append(stack)

    def at(self, number: int) -> Stack:
        """The regions that a node was made in."""
        index = bisect_right(self.starts, number) - 1
        return self.stacks[index] if index >= 0 else ()


def _itself(signal: str) -> str:
    return signal


class Regions:
    """The regions of all threads.

    Attributes:
        used: Whether any region was ever entered; until then emission need not look here.
        stream: What the stream is in, after the block under construction.
        backward: Gives the signal that a region's backward work runs under.
    """

    def __init__(self) -> None:
        self._local = _ThreadRegions()
        self.used = False
        self.stream: Stack = ()
        self.backward: Callable[[str], str] = _itself

    def follow(self, sharding: ShardingConfig | None) -> None:
        """Takes the signals of backward work from a sharding file; without one, a region's own signal stays.

        Args:
            sharding: The session's sharding file, or None.
        """
        known: dict[str, str] = {}

        def backward(signal: str) -> str:
            name = known.get(signal)
            if name is None:
                rule = sharding.match(signal) if sharding is not None else None
                name = known[signal] = (rule.backward if rule is not None else None) or signal
            return name

        self.backward = backward if sharding is not None else _itself

    def enter(self, signal: str) -> None:
        """A region begins in this thread.

        Raises:
            SignalError: The name can't be used.
        """
        check_signal(signal)
        self.used = True
        self._local.change((*self._local.stack, signal))

    def leave(self, signal: str) -> None:
        """The innermost region ends in this thread.

        Raises:
            SignalError: It is another one, or there is none.
        """
        stack = self._local.stack
        if not stack:
            raise SignalError(
                f'region "{signal}" ends here, but this thread is in no region: call enter("{signal}") first'
            )
        if stack[-1] != signal:
            raise SignalError(
                f'region "{signal}" ends here, but the innermost one is "{stack[-1]}": leave that one first'
            )
        self._local.change(stack[:-1])

    def wanted(self) -> Stack:
        """The regions that an instruction emitted now belongs to.

        In a backward pass, these are the ones of the forward call that made the node.
        """
        node = current_autograd_node()
        if node is None:
            return self._local.stack
        number = node._sequence_nr()
        if number == NO_FORWARD:
            return self.stream
        stack = self._local.at(number)
        return tuple(map(self.backward, stack)) if stack else self._local.stack


def check_signal(signal: str) -> None:
    """Checks a signal's name.

    Raises:
        SignalError: It is no text, empty, or too long.
    """
    if not isinstance(signal, str) or not 0 < len(signal) <= MAX_SIGNAL_LENGTH:
        raise SignalError(f"a signal's name is a text of 1 to {MAX_SIGNAL_LENGTH} characters, not {signal!r}")
