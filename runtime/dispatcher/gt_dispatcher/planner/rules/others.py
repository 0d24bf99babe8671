"""Operators that the planner has no rule of its own for."""

from __future__ import annotations

from typing import Final

from gt_dispatcher.planner.errors import NoRule
from gt_dispatcher.planner.instruction import Instruction
from gt_dispatcher.planner.strategy import Strategy

#: Operators whose proposals by DTensor were found right on every axis that it would split.
CERTIFIED: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_fft_c2c", "_fft_c2r", "_fft_r2c", "_linalg_det", "_linalg_slogdet", "_linalg_solve_ex", "_safe_softmax"),
        *("cholesky_solve", "grid_sampler_2d", "grid_sampler_2d_backward", "index_add", "index_copy"),
        *("index_fill.int_Scalar", "index_put", "linalg_cholesky_ex", "linalg_cross", "linalg_inv_ex"),
        *("linalg_matrix_exp", "max_unpool2d", "select_scatter", "slice_scatter"),
        *("take", "triangular_solve", "vdot"),
    )
)


def propagated(instruction: Instruction) -> Strategy:
    """What DTensor proposes.

    Raises:
        NoRule: It proposes nothing that can be used.
    """
    # Loading it takes seconds, and most programs never need it.
    from gt_dispatcher.planner.propagation import propose

    return propose(instruction)


def unknown(instruction: Instruction) -> Strategy:
    """No rule at all.

    Raises:
        NoRule: Always.
    """
    raise NoRule(f"there is no rule for {instruction.name}")
