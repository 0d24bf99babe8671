"""The worker's own kernels, against PyTorch's attention and its autograd."""

from __future__ import annotations

import pytest
import torch

from gt_worker.kernels import KERNELS, PER_CHANNEL, attention, attention_backward, kernel


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias_shape", [None, (5, 7), (2, 1, 1, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_and_its_gradients(causal: bool, bias_shape: tuple[int, ...] | None, scale: float | None) -> None:
    torch.manual_seed(0)
    shapes = ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))
    query, key, value = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    bias = None if bias_shape is None else torch.randn(bias_shape, dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(5, 7, dtype=torch.float64)
    if causal:
        mask.masked_fill_(torch.ones(5, 7, dtype=torch.bool).triu(1), float("-inf"))
    want = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask if bias is None else mask + bias, scale=scale
    )
    grad = torch.randn_like(want)
    inputs = [query, key, value] + ([] if bias is None else [bias])
    want_grads = torch.autograd.grad(want, inputs, grad)
    with torch.no_grad():
        result, logsumexp, *rest = attention(query, key, value, bias, 0.0, causal, scale=scale)
        assert rest[:4] == [None, None, 5, 7]
        grads = attention_backward(
            grad, query, key, value, bias, [True] * 4, result, logsumexp, *rest[:4], 0.0, causal, *rest[4:6],
            scale=scale,
        )  # fmt: skip
    torch.testing.assert_close(result, want)
    for got, expected in zip(grads, want_grads, strict=False):
        assert got is not None
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert (grads[3] is None) == (bias is None)


def test_attention_matches_the_meta_kernel() -> None:
    """Clients learn shapes, strides and types from PyTorch's meta kernel; the real results must be the same."""
    query = torch.randn(2, 5, 3, 4, dtype=torch.bfloat16).transpose(1, 2)
    operator = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    want = operator(*(query.to("meta") for _ in range(3)))
    got = attention(query, query, query)
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert type(mine) is type(theirs)
        if isinstance(mine, torch.Tensor):
            assert (mine.shape, mine.dtype, mine.stride()) == (theirs.shape, theirs.dtype, theirs.stride())


def test_queries_that_see_nothing_give_zeros() -> None:
    value = torch.ones(1, 1, 2, 2)
    bias = torch.tensor([[float("-inf")] * 2, [0.0, 0.0]])
    result = attention(value, value, value, bias)[0]
    torch.testing.assert_close(result, torch.tensor([[[[0.0, 0.0], [1.0, 1.0]]]]))


@pytest.mark.parametrize(("name", "positions"), PER_CHANNEL.items())
def test_statistics_of_a_wrong_size_are_refused(name: str, positions: tuple[int, ...]) -> None:
    """PyTorch's kernels index these without a look at their size, beyond their memory if they are too short."""
    is_backward = name.endswith("_backward")
    args = [torch.ones(2, 3), *(torch.ones(3) for _ in range(max(positions))), True]
    if is_backward:
        args[1] = torch.ones(2, 3)
    for position in positions:
        with pytest.raises(ValueError, match="one number for each of 3 channels"):
            kernel(name)(*args[:position], torch.ones(1), *args[position + 1 :])


def test_statistics_of_the_right_size_are_normal() -> None:
    source, mean, var = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    got = kernel("aten::native_batch_norm")(source, None, None, mean, var, True, 0.1, 1e-5)
    torch.testing.assert_close(got[0], torch.native_batch_norm(source, None, None, None, None, True, 0.1, 1e-5)[0])
    torch.testing.assert_close(mean, 0.1 * source.mean(0))


@pytest.mark.parametrize("name", KERNELS)
def test_own_kernels_are_needed(name: str) -> None:
    """PyTorch has none for the CPU; as soon as it has, ours can go."""
    assert kernel(name) is KERNELS[name]
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
