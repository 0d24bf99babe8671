"""Random programs of operators, views and writes in place: the fleet and the CPU must agree at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopback import Loopback

from gt.blocks import builder

T = torch.Tensor

UNARY: list[Callable[[T], T]] = [
    lambda x: x.relu(), lambda x: x.neg(), lambda x: x * 0.5, lambda x: x + 1, lambda x: x.tanh(), lambda x: x.clone(),
    lambda x: x.abs().sqrt(), lambda x: x.sum(0, keepdim=True).expand_as(x).contiguous(), lambda x: x.detach(),
    lambda x: x.softmax(-1), lambda x: x.flip(0), lambda x: x.cumsum(-1) / 7, lambda x: (x > 0).to(x.dtype),
    lambda x: x.clamp(-1, 1.5), lambda x: x.reshape(-1).reshape(x.shape), lambda x: torch.zeros_like(x),
]  # fmt: skip
VIEWS: list[Callable[[T], T]] = [
    lambda x: x.t() if x.dim() == 2 else x, lambda x: x[:1], lambda x: x[..., ::2], lambda x: x.unsqueeze(0),
    lambda x: x[0] if x.dim() > 1 else x, lambda x: x.transpose(0, -1), lambda x: x.squeeze(), lambda x: x[..., -1:],
    lambda x: x.view(x.shape), lambda x: x.narrow(0, 0, 1), lambda x: x.unbind(0)[-1] if x.dim() > 1 else x,
    lambda x: x.chunk(2, -1)[0], lambda x: x.flatten(), lambda x: x.diagonal() if x.dim() == 2 else x, lambda x: x.data,
    lambda x: x.as_strided((1,), (1,), x.storage_offset()), lambda x: x.movedim(0, -1), lambda x: x.expand(2, *x.shape),
]  # fmt: skip
WRITES: list[Callable[[T], Any]] = [
    lambda x: x.add_(1), lambda x: x.mul_(-0.5), lambda x: x.zero_(), lambda x: x.fill_(0.25), lambda x: x.tanh_(),
    lambda x: x.clamp_(-2, 2), lambda x: x.copy_(x.flip(0)), lambda x: x.sub_(x.mean()), lambda x: x.relu_(),
    lambda x: x.copy_(torch.ones(())), lambda x: x[..., 0].add_(0.5), lambda x: torch._foreach_add_([x], 0.5),
]  # fmt: skip
BINARY: list[Callable[[T, T], T]] = [
    lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y.mean(), lambda x, y: torch.maximum(x, y),
    lambda x, y: torch.where(x > y, x, y), lambda x, y: torch.cat([x.flatten(), y.flatten()]),
    lambda x, y: torch.outer(x.flatten()[:3], y.flatten()[:3]), lambda x, y: x.lerp(y, 0.25),
    lambda x, y: x.add(y, alpha=0.3), lambda x, y: x.add_(y.sum()),
]  # fmt: skip

STEP = st.tuples(
    st.sampled_from(["unary", "view", "write", "binary", "drop", "read"]),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
)


class Machine:
    """A few tensors that a program works on."""

    def __init__(self, device: str) -> None:
        values = torch.linspace(-2, 2, 12)
        self.device = device
        self.tensors = [
            values.view(3, 4).clone().to(device),
            values[:5].to(device),
            values.view(2, 3, 2).clone().to(device),
        ]

    def step(self, kind: str, which: int, first: int, second: int) -> Any:
        """Does one step, and gives its value or the kind of its error."""
        x, y = self.tensors[first % len(self.tensors)], self.tensors[second % len(self.tensors)]
        try:
            if kind == "drop":
                if len(self.tensors) > 2:
                    del self.tensors[first % len(self.tensors)]
                return None
            if kind == "read":
                return x.sum().item()
            if kind == "write":
                WRITES[which % len(WRITES)](x)
                return x.shape
            operators: list[Callable[..., T]] = {"unary": UNARY, "view": VIEWS, "binary": BINARY}[kind]  # type: ignore[assignment]  # by number of arguments
            operator = operators[which % len(operators)]
            made = operator(x, y) if kind == "binary" else operator(x)
        except (RuntimeError, IndexError) as error:
            return type(error)
        if made.numel() <= 4096:
            self.tensors = [*self.tensors[-5:], made]
        # The step of an axis with one element means nothing, and kernels differ in it.
        steps = [step for size, step in zip(made.shape, made.stride(), strict=True) if size > 1 and made.numel()]
        return made.shape, steps, made.storage_offset(), made.dtype


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, min_size=1, max_size=40))
def test_random_programs_agree(fleet: Loopback, steps: list[tuple[str, int, int, int]]) -> None:
    builder.reset()
    fleet.tensors.clear()
    want, got = Machine("cpu"), Machine("fleet")
    for step in steps:
        expected, result = want.step(*step), got.step(*step)
        if isinstance(expected, float):
            assert abs(expected - result) <= 1e-3 * max(1.0, abs(expected)), step
        else:
            assert result == expected, step
    for one, other in zip(got.tensors, want.tensors, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-4)
    del got, one
    builder.flush()
    assert not fleet.tensors
