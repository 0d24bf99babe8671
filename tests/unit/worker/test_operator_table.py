"""The table of allowed operators, against PyTorch's own schemas."""

from __future__ import annotations

import re

import pytest
import torch

from gt_protocol.operators import operator_table, parse_table
from gt_worker.operator_table import DENIED, base_name, make_table, overloads


def test_file_is_what_pytorch_gives() -> None:
    """A changed PyTorch or rule shows here; `python -m gt_worker.operator_table` brings the file up to date."""
    written = operator_table()
    made = parse_table(make_table())
    assert written.operators == made.operators
    assert written.digest == made.digest


@pytest.mark.parametrize(("pattern", "reason"), DENIED)
def test_each_denial_denies_something(pattern: str, reason: str) -> None:
    assert any(re.fullmatch(pattern, base_name(operator)) for operator in overloads()), reason


@pytest.mark.parametrize(
    "name",
    [
        "aten::from_file",
        "aten::set_.source_Storage",
        "aten::set_.source_Tensor",
        "aten::record_stream",
        "aten::item",
        "aten::_local_scalar_dense",
        "aten::_reshape_alias",
        "aten::to_sparse",
        "aten::quantize_per_tensor",
        "aten::cudnn_batch_norm",
    ],
)
def test_dangerous_operators_are_absent(name: str) -> None:
    assert operator_table().get(name) is None


@pytest.mark.parametrize(
    ("name", "writes", "random", "view", "pointwise"),
    [
        ("aten::add.Tensor", (), False, False, True),
        ("aten::add_.Tensor", (0,), False, False, True),
        ("aten::add.out", (3,), False, False, True),
        ("aten::t", (), False, True, False),
        ("aten::uniform_", (0,), True, False, False),
        ("aten::native_dropout", (), True, False, False),
        ("aten::native_batch_norm", (3, 4), False, False, False),
        ("aten::_foreach_add_.Scalar", (0,), False, False, False),
        ("aten::_fused_adamw_", (0, 1, 2, 3, 4), False, False, False),
        ("aten::linear_backward", (), False, False, False),
        ("aten::quantile", (), False, False, False),
        ("aten::_scaled_dot_product_fused_attention_overrideable", (), True, False, False),
    ],
)
def test_flags(name: str, writes: tuple[int, ...], random: bool, view: bool, pointwise: bool) -> None:
    operator = operator_table().get(name)
    assert operator is not None
    flags = (operator.random, operator.view, operator.pointwise)
    assert flags == (random, view, pointwise)
    assert operator.writes[: len(writes)] == writes


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_writes_where_the_table_says(training: bool) -> None:
    """The schema of `native_batch_norm` hides its writes; the table must not."""
    mean, var = torch.zeros(3), torch.ones(3)
    torch.native_batch_norm(torch.randn(4, 3) + 5, None, None, mean, var, training, 0.1, 1e-5)
    assert bool((mean != 0).any()) == training
    operator = operator_table().get("aten::native_batch_norm")
    assert operator is not None
    assert operator.writes == (3, 4)
