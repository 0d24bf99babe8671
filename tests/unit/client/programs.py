"""Programs that must give the same on the fleet as on the CPU. Each takes a device and returns what it computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

PROGRAMS: dict[str, Callable[[str], Any]] = {}


def program(function: Callable[[str], Any]) -> Callable[[str], Any]:
    PROGRAMS[function.__name__] = function
    return function


def data(device: str, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


@program
def factories(device: str) -> Any:
    with torch.device(device):
        inside = [torch.ones(2, 3), torch.arange(5), torch.full((2,), 7), torch.tensor([1, 2]), torch.eye(3)]
    return [
        *inside,
        torch.ones(3, device=device),
        torch.zeros(2, 2, dtype=torch.int32, device=device),
        torch.full((2, 2), 1.5, device=device),
        torch.full((2,), True, device=device),
        torch.arange(1, 7, 2, device=device),
        torch.arange(0, 1, 0.25, device=device),
        torch.linspace(0, 1, 5, device=device),
        torch.eye(2, 3, device=device),
        torch.tensor([[1.0, 2.0]], device=device),
        torch.tensor(3, device=device),
        torch.scalar_tensor(2.5, device=device),
        torch.empty(0, 3, device=device),
        torch.zeros_like(torch.ones(2, 3, device=device).t()),
        torch.ones(2, device=device).new_full((3,), 4),
        torch.empty(2, 2, device=device).fill_(3),
        torch.empty_strided((2, 2), (1, 2), device=device).zero_(),
        torch.tril_indices(3, 3, device=device),
        torch.zeros_like(torch.ones(2), device=device),
    ]


@program
def scalars_keep_their_type(device: str) -> Any:
    whole, real, flag = torch.arange(4).to(device), data(device, 4), torch.tensor([True, False]).to(device)
    return [
        whole + 1, whole + 1.0, whole * True, whole / 2, whole // 2, 2**whole, real + 1, real * 2.5, flag + flag,
        flag + 1, flag * True, flag * 1.5, whole.float().pow(2), whole.pow(2), -whole, whole % 3, 1 - real, whole == 1,
        whole.clamp(1, 2), whole + 2**40, real > 0, real.to(torch.float64) * 3, whole * 1j,
    ]  # fmt: skip


@program
def default_dtype_counts(device: str) -> Any:
    whole = torch.arange(4).to(device)
    results = [whole / 2, torch.ones(2, device=device)]
    torch.set_default_dtype(torch.float64)
    try:
        results += [whole / 2, torch.ones(2, device=device), torch.full((2,), 1.5, device=device)]
    finally:
        torch.set_default_dtype(torch.float32)
    return [*results, whole / 2, torch.ones(2, device=device)]


@program
def cpu_scalars_take_part(device: str) -> Any:
    x = data(device, 3)
    return [
        x + torch.tensor(2.0), x * torch.tensor(3),
        torch.tensor(2**53 + 1) + torch.zeros(1, dtype=torch.int64).to(device),
        x.masked_fill(x > 0, torch.tensor(-1.0)), torch.where(x > 0, x, torch.tensor(0.0)), x.add_(torch.tensor(True)),
        torch.tensor(1.5, dtype=torch.float64) * x,
    ]  # fmt: skip


@program
def views_and_writes_through_them(device: str) -> Any:
    x = data(device, 4, 6)
    seen: list[Any] = [x.clone()]
    x.t()[1].add_(1)
    x.view(2, 2, 6)[:, 0].mul_(2)
    x[1:3, ::2] = 5
    x[:, -1].zero_()
    x.unsqueeze(0).squeeze(0)[0, 0] = -1
    x.as_strided((2, 2), (6, 1), 7).add_(10)
    x.diagonal().fill_(0.5)
    x.select(1, 2).copy_(torch.arange(4.0).to(device))
    x.permute(1, 0).narrow(0, 4, 1).sub_(1)
    first, second = x.chunk(2)
    first += second
    row, *_ = x.unbind(0)
    row.neg_()
    flat = x.reshape(-1)
    flat[3] = 99
    real = torch.view_as_complex(x.view(4, 3, 2).contiguous()).real
    seen += [x.t(), x.expand(2, 4, 6), x[None, :, 1], flat.view(3, 8).transpose(0, 1), real, x.unfold(1, 2, 3)]
    return [*seen, x]


@program
def strides_are_kept(device: str) -> Any:
    x = data(device, 2, 3, 4, 5)
    last = x.to(memory_format=torch.channels_last)
    results = [
        x.t() if x.dim() == 2 else x.transpose(0, 2),
        last,
        last + 1,
        torch.zeros_like(last),
        x.permute(3, 1, 0, 2),
    ]
    results += [x.permute(3, 1, 0, 2) * 2, last.contiguous(), x.transpose(1, 2).reshape(2, -1), x[:, :, ::2].clone()]
    return [(result.stride(), result.storage_offset(), result.is_contiguous(), result) for result in results]


@program
def metadata_in_place(device: str) -> Any:
    x, y, z = data(device, 2, 3), data(device, 1, 3), data(device, 4)
    x.t_()
    y.squeeze_(0).unsqueeze_(1)
    z.resize_(2, 2)
    x.add_(1)
    return [x, x.shape, y, z, data(device, 6).resize_(2)]


@program
def out_arguments(device: str) -> Any:
    x, y = data(device, 3), data(device, 3, seed=1)
    same, empty = torch.empty(3, device=device), torch.empty(0, device=device)
    torch.add(x, y, out=same)
    torch.mul(x, y, out=empty)
    values, places = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
    torch.max(data(device, 3, 4), 1, out=(values, places))
    return [same, empty, empty.shape, values, places]


@program
def reductions(device: str) -> Any:
    x = data(device, 3, 4)
    return [
        x.sum(), x.sum(0), x.mean(1, keepdim=True), x.max(), x.max(1), x.argmax(-1), x.var(), x.std(0), x.norm(),
        x.cumsum(1), x.logsumexp(1), x.prod(), x.all(), (x > 0).any(1), x.softmax(-1), x.log_softmax(0), x.topk(2),
        x.sort(1), x.median(), x.amax((0, 1)), torch.linalg.vector_norm(x, 3), x.float().mean(dtype=torch.float64),
    ]  # fmt: skip


@program
def indexing(device: str) -> Any:
    x, places = data(device, 5, 4), torch.tensor([0, 3, 1])
    mask = x > 0
    y = x.clone()
    y[places.to(device), 1] = 7
    y[mask] = 0
    y.index_put_((places,), torch.ones(4).to(device), accumulate=True)
    y.index_add_(0, places.to(device), torch.ones(3, 4).to(device))
    y.scatter_(1, torch.zeros(5, 1, dtype=torch.int64).to(device), 3.0)
    return [
        x[places], x[places.to(device)], x[mask], x[mask.cpu()], x[:, [1, 2]], x[x[:, 0] > 0],
        x.gather(1, places.view(3, 1).to(device)),
        x.index_select(0, places.to(device)), x.masked_select(mask), mask.nonzero(), x.take(places.to(device)), y,
        torch.where(mask), torch.unique((x * 2).round()), x[0, 1].item(), x.tolist(),
    ]  # fmt: skip


@program
def reads(device: str) -> Any:
    x = torch.tensor([[1.5, -2.0], [0.0, 4.0]]).to(device)
    return [
        x[0, 0].item(), float(x[1, 1]), int(x[1, 1]), bool(x[0, 1]), x.cpu(), x.to("cpu", torch.float64), len(x),
        torch.equal(x, x.clone()), torch.allclose(x, x + 1e-9), x.tolist(), x.to(torch.int32), x.double().cpu(),
        x.type(torch.float16), x.bool(), (x == x).all().item(), x.int().sum().item(), f"{x[0, 0]:.2f}",
        torch.empty(2, device="cpu").copy_(x[0]), torch.zeros_like(x, device="cpu"), x.is_contiguous(), x.nelement(),
        x.to(device) is x, x.element_size(), x.is_floating_point(),
    ]  # fmt: skip


@program
def autograd(device: str) -> Any:
    x, w, b = (data(device, *shape).requires_grad_() for shape in ((4, 3), (3, 2), (2,)))
    loss = ((x @ w + b).tanh() ** 2).mean() + (x[1:, :2] * x[:3, 1:]).sum() + x.t().exp().logsumexp(1).sum()
    loss.backward()
    first = x.grad.clone()
    (x.sum() * 2).backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), w)
    y = x * 1
    y[0].mul_(2)
    y.sum().backward()
    return [loss, first, x.grad, w, w.grad, b.grad, g, gg, x.is_leaf, loss.requires_grad]


@program
def autograd_crosses_devices(device: str) -> Any:
    x = torch.arange(3.0, requires_grad=True)
    scale = torch.tensor(2.0, requires_grad=True)
    ((x.to(device) * scale) ** 2).sum().cpu().backward()
    return [x.grad, scale.grad]


@program
def hooks_and_functions(device: str) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2 + ctx.saved_tensors[0] * 0

    seen: list[torch.Tensor] = []
    x = data(device, 3).requires_grad_()
    x.register_hook(lambda grad: seen.append(grad.clone()) or grad * 3)
    torch.utils.checkpoint.checkpoint(lambda y: Double.apply(y).sin(), x, use_reentrant=False).sum().backward()
    return [seen, x.grad]


@program
def set_data(device: str) -> Any:
    x, y = data(device, 3), data(device, 2, 2)
    x.data = y
    p = nn.Parameter(data(device, 3))
    p.data = p.data.double() * 2
    p.data.add_(1)
    p.data[0] = 5
    return [x, x.shape, x.dtype, x + 1, p, p.dtype, p * 2]


@program
def joins_and_shapes(device: str) -> Any:
    x, y = data(device, 2, 3), data(device, 2, 3, seed=1)
    return [
        torch.cat([x, y]), torch.stack([x, y], 1), torch.einsum("ij,kj->ik", x, y), x.flip(0), x.roll(1, 1),
        x.repeat(2, 2),
        x.tile(2), torch.meshgrid(x[0], y[0], indexing="ij"), x.tril(), torch.triu(x), torch.outer(x[0], y[0]),
        x.split(1),
        torch.bmm(x[None], y.t()[None]), torch.addmm(torch.ones(2, 2).to(device), x, y.t(), beta=0.5), x.movedim(0, 1),
        torch.nn.utils.parameters_to_vector([x, y]), x.lerp(y, 0.3), torch.addcmul(x, x, y, value=2),
        x.repeat_interleave(2, 0),
        torch.kron(x, y), x.flatten(), torch.broadcast_to(x[0], (4, 3)), torch.linalg.inv(x[:, :2]),
        torch.hstack([x, y]),
        torch.cdist(x, y), x.unflatten(1, (3, 1)), torch.block_diag(x, y), x.rot90(), x.sign(),
    ]  # fmt: skip


@program
def foreach(device: str) -> Any:
    xs, ys = ([data(device, 2, k + 1, seed=k + s) for k in range(3)] for s in (0, 10))
    torch._foreach_add_(xs, ys, alpha=2)
    torch._foreach_mul_(xs, 0.5)
    torch._foreach_addcdiv_(xs, ys, [y.abs() + 1 for y in ys], [0.1, 0.2, 0.3])
    torch._foreach_lerp_(xs, ys, 0.25)
    return [xs, torch._foreach_norm(xs), torch._foreach_sqrt(torch._foreach_abs(xs)), torch._foreach_maximum(xs, 0.0)]
