"""Certifies the operators that DTensor may be asked about: each is run with each operand split along each axis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.layout import LayoutTable, Mesh
from gt_dispatcher.planner.rules.others import CERTIFIED
from gt_protocol.placements import Shard
from tests.support.planner.fleet import Fleet
from tests.support.planner.single import OPERATORS, captured

aten = torch.ops.aten


def real(*shape: int) -> Tensor:
    """Random numbers."""
    return torch.randn(shape)


def regular(*shape: int) -> Tensor:
    """Positive definite matrices."""
    matrix = torch.randn(*shape, shape[-1])
    return matrix @ matrix.mT + torch.eye(shape[-1])


def unpooled() -> tuple[Tensor, Tensor]:
    """What pooling gives, with the places that it came from."""
    values, places = torch.nn.functional.max_pool2d_with_indices(real(4, 3, 6, 6), 2)
    return values, places


CASES: dict[str, tuple[Callable[..., object], Callable[[], tuple[Tensor, ...]]]] = {
    "_fft_c2c": (lambda a: aten._fft_c2c(a, [1], 0, True), lambda: (torch.randn(4, 6, 3, dtype=torch.complex64),)),
    "_fft_c2r": (lambda a: aten._fft_c2r(a, [1], 0, 6), lambda: (torch.randn(4, 4, 3, dtype=torch.complex64),)),
    "_fft_r2c": (lambda a: aten._fft_r2c(a, [1], 0, True), lambda: (real(4, 6, 3),)),
    "_linalg_det": (aten._linalg_det, lambda: (regular(4, 3),)),
    "_linalg_slogdet": (aten._linalg_slogdet, lambda: (regular(4, 3),)),
    "_linalg_solve_ex": (aten._linalg_solve_ex, lambda: (regular(4, 3), real(4, 3, 2))),
    "_safe_softmax": (lambda a: aten._safe_softmax(a, 1), lambda: (real(4, 6, 3),)),
    "cholesky_solve": (aten.cholesky_solve, lambda: (real(4, 3, 2), torch.linalg.cholesky(regular(4, 3)))),
    "grid_sampler_2d": (
        lambda a, g: aten.grid_sampler_2d(a, g, 0, 0, False),
        lambda: (real(4, 3, 5, 5), torch.rand(4, 6, 6, 2) * 2 - 1),
    ),
    "grid_sampler_2d_backward": (
        lambda d, a, g: aten.grid_sampler_2d_backward(d, a, g, 0, 0, False, [True, True]),
        lambda: (real(4, 3, 6, 6), real(4, 3, 5, 5), torch.rand(4, 6, 6, 2) * 2 - 1),
    ),
    "index_add": (lambda a, i, b: aten.index_add(a, 0, i, b), lambda: (real(6, 4), torch.arange(3), real(3, 4))),
    "index_copy": (lambda a, i, b: aten.index_copy(a, 0, i, b), lambda: (real(6, 4), torch.arange(3), real(3, 4))),
    "index_fill.int_Scalar": (
        lambda a, i: aten.index_fill.int_Scalar(a, 0, i, 2.0),
        lambda: (real(6, 4), torch.arange(3)),
    ),
    "index_put": (lambda a, i, b: aten.index_put(a, [i], b), lambda: (real(6, 4), torch.arange(3), real(3, 4))),
    "linalg_cholesky_ex": (aten.linalg_cholesky_ex, lambda: (regular(4, 3),)),
    "linalg_cross": (aten.linalg_cross, lambda: (real(4, 3), real(4, 3))),
    "linalg_inv_ex": (aten.linalg_inv_ex, lambda: (regular(4, 3),)),
    "linalg_matrix_exp": (aten.linalg_matrix_exp, lambda: (regular(4, 3),)),
    "max_unpool2d": (lambda a, i: aten.max_unpool2d(a, i, [6, 6]), unpooled),
    "select_scatter": (lambda a, b: aten.select_scatter(a, b, 1, 2), lambda: (real(4, 6), real(4))),
    "slice_scatter": (lambda a, b: aten.slice_scatter(a, b, 1, 0, 2), lambda: (real(4, 6), real(4, 2))),
    "take": (aten.take, lambda: (real(6, 4), torch.tensor([[1, 5, 7, 2], [0, 3, 23, 11]]))),
    "triangular_solve": (aten.triangular_solve, lambda: (real(4, 3, 2), regular(4, 3).triu())),
    "vdot": (aten.vdot, lambda: (real(6), real(6))),
}


def test_each_certified_operator_is_run() -> None:
    assert {f"aten::{name}" for name in CASES} == CERTIFIED


@pytest.mark.parametrize("name", list(CASES))
def test_what_dtensor_proposes_changes_no_value(name: str) -> None:
    torch.manual_seed(len(name))
    program, make = CASES[name]
    operands = make()
    recording = captured(program, operands)
    used = 0
    for operand, tensor in enumerate(operands):
        for axis in range(tensor.dim()):
            for workers in (2, 3, 4):
                report = Fleet(OPERATORS, workers).replay(recording, {str(operand): Shard(axis)})
                used += not report.fallbacks
    assert used, "no proposal was ever taken"


def test_proposals_are_checked() -> None:
    from gt_dispatcher.planner.instruction import Instruction
    from gt_dispatcher.planner.propagation import propose
    from tests.support.planner.capture import meta_of

    layouts, mesh = LayoutTable(), Mesh((5, 7, 6), (3,))

    def ask(program: Callable[..., object], tensor: Tensor, axis: int) -> None:
        (recorded,) = captured(program, [tensor]).instructions
        layout = layouts.get(mesh, (Shard(axis),), meta_of(tensor))
        propose(Instruction(recorded.call, OPERATORS[recorded.call.op], (layout,), mesh))

    with pytest.raises(NoRule, match="DTensor proposes"):
        ask(torch.mean, real(6, 4), 0)
    with pytest.raises(NoRule, match="without elements"):
        ask(torch.sum, real(2, 4), 0)
    with pytest.raises(NoRule, match="gathers its operands"):
        ask(lambda a: a.cumsum(0), real(6, 4), 0)
    with pytest.raises(NoRule, match="no proposal"):
        ask(aten.hash_tensor, real(6, 4), 0)
    ask(torch.sum, real(6, 4), 0)
