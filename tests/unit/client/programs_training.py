"""Programs that train or move models; see `programs`."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import torch
from programs import PROGRAMS, data, program
from torch import nn
from torch.nn import functional as F


def make_mlp(width: int = 8) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))


@program
def modules_move_and_copy(device: str) -> Any:
    model = make_mlp().to(device)
    model[0].weight.requires_grad_(False)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight.add_(1)
    wide = copy.deepcopy(model).double()
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    other = make_mlp().to(device)
    other.load_state_dict(state)
    other.load_state_dict(twin.state_dict())
    x = data(device, 3, 8)
    back = copy.deepcopy(model).to("cpu")
    with torch.no_grad():
        shown = [model(x), twin(x), wide(x.double()), other(x), back(x.cpu())]
    return [
        shown, wide[0].weight.dtype, twin[0].weight.requires_grad,
        type(model[0].weight) is type(twin[0].weight), isinstance(twin[0].weight, nn.Parameter), state,
        model.half()[0].weight.dtype,
    ]  # fmt: skip


@program
def tied_weights_stay_tied(device: str) -> Any:
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    with torch.no_grad():
        model["a"].weight.copy_(data("cpu", 3, 3))
    model["b"].weight = model["a"].weight
    optimizer = torch.optim.SGD(model["a"].parameters(), 0.1)
    model.to(device)
    nn.init.zeros_(model["a"].bias)
    (model["a"](data(device, 2, 3)) ** 2).sum().backward()
    optimizer.step()
    return [model["b"].weight, model["a"].weight is model["b"].weight, len(list(model.parameters()))]


@program
def save_and_load(device: str) -> Any:
    model, file = make_mlp().to(device), io.BytesIO()
    torch.save({"model": model.state_dict(), "parameter": model[0].weight, "tensor": data(device, 3)}, file)
    file.seek(0)
    loaded = torch.load(file)
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    other = make_mlp().to(device)
    other.load_state_dict(loaded["model"])
    return [
        loaded["tensor"], loaded["tensor"].device.type == device, isinstance(loaded["parameter"], nn.Parameter),
        on_cpu["tensor"], on_cpu["tensor"].device, other(data(device, 2, 8)), model(data(device, 2, 8)),
    ]  # fmt: skip


def train(device: str, make_optimizer: Callable[[Any], Any], model: nn.Module | None = None, steps: int = 5) -> Any:
    model = (make_mlp() if model is None else model).to(device)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for step in range(steps):
        x, y = data(device, 6, 8, seed=step), (torch.arange(6) % 4).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses += [loss.item(), norm]
    return [losses, model.state_dict(), {str(k): v for k, v in optimizer.state_dict()["state"].items()}]


for _name, _make in {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov_foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True, amsgrad=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw_fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True),
    "sgd_fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}.items():
    PROGRAMS[f"train_{_name}"] = lambda device, make=_make: train(device, make)


@program
def convolutional_network(device: str) -> Any:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, stride=2),
        nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for step in range(3):
        loss = F.cross_entropy(model(data(device, 4, 1, 10, 10, seed=step)), torch.tensor([0, 1, 2, 1]).to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        shown = model(data(device, 4, 1, 10, 10))
    return [
        losses,
        shown,
        model.state_dict(),
        F.avg_pool2d(data(device, 1, 2, 4, 4), 2),
        F.interpolate(data(device, 1, 1, 2, 2), 4),
    ]


@program
def transformer(device: str) -> Any:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(device)
    x = data(device, 2, 5, 16).requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(5).to(device)
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]]).to(device)
    (layer(x, mask).sum() + layer(x, src_key_padding_mask=padding)[0].pow(2).sum()).backward()
    layer.eval()
    with torch.no_grad():
        shown = layer(x)
    q, k, v = (data(device, 2, 2, 5, 8, seed=s).requires_grad_() for s in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)
    (out * out).sum().backward()
    allowed = torch.ones(5, 5, dtype=torch.bool).tril().to(device)
    masked = F.scaled_dot_product_attention(q, k, v, allowed)
    return [x.grad, shown, out, q.grad, k.grad, v.grad, masked, [p.grad for p in layer.parameters()]]


@program
def transformer_encoder_on_padded_batches(device: str) -> Any:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=device != "cpu").to(device).eval()
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]]).to(device)
    with torch.no_grad():
        shown = encoder(data(device, 2, 5, 16), src_key_padding_mask=padding)
    return [shown[0], shown[1, :3]]


@program
def recurrent_networks(device: str) -> Any:
    torch.manual_seed(1)
    results: list[Any] = []
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        net = kind(3, 4, num_layers=2, batch_first=True).to(device)
        out, state = net(data(device, 2, 5, 3))
        out.sum().backward()
        results += [out, state, [p.grad for p in net.parameters()]]
    return results


@program
def embeddings_and_losses(device: str) -> Any:
    torch.manual_seed(1)
    table = nn.Embedding(7, 4).to(device)
    ids = torch.tensor([[1, 2, 6], [0, 3, 3]]).to(device)
    x = nn.LayerNorm(4).to(device)(table(ids))
    target = data(device, 2, 3, 4, seed=5)
    losses = [
        F.mse_loss(x, target), F.l1_loss(x, target), F.smooth_l1_loss(x, target),
        F.nll_loss(x.log_softmax(-1).transpose(1, 2), ids % 4),
        F.binary_cross_entropy_with_logits(x, (target > 0).float()),
        F.kl_div(x.log_softmax(-1), target.softmax(-1), reduction="batchmean"),
        F.cross_entropy(x.transpose(1, 2), ids % 4, weight=torch.arange(1.0, 5.0).to(device)),
        F.cosine_similarity(x, target).sum(),
    ]  # fmt: skip
    sum(losses).backward()
    return [
        losses,
        table.weight.grad,
        F.one_hot(ids, 7),
        F.pad(x, (1, 2)),
        F.normalize(x),
        F.dropout(x, 0.5, training=False),
    ]


@program
def functional_transforms(device: str) -> Any:
    x = data(device, 3)
    batch = data(device, 4, 3)
    model = make_mlp(3).to(device)
    called = torch.func.functional_call(model, dict(model.named_parameters()), (batch,))
    return [torch.func.grad(lambda v: (v**3).sum())(x), torch.func.vmap(lambda v: v @ x)(batch), called]


@program
def inference_mode(device: str) -> Any:
    model = make_mlp().to(device)
    with torch.inference_mode():
        y = model(data(device, 5, 8))
        z = F.scaled_dot_product_attention(*(data(device, 1, 2, 3, 4, seed=k) for k in range(3)))
        y.add_(1)
    return [y, z, y @ y.t(), torch.matmul(data(device, 2, 3, 4), data(device, 4, 5))]
