"""Calls at the edge of what an instruction can express."""

from __future__ import annotations

import pytest
import torch

import gt

from .loopback import Loopback

Z = torch.tensor([[1 + 2j, 3 - 1j], [2j, 1 + 0j]])


def test_conjugates_and_negatives_are_computed(fleet: Loopback) -> None:
    there = Z.to("fleet")
    for view in (
        lambda z: z.conj(),
        lambda z: z.mH,
        lambda z: z.conj().imag,
        lambda z: z.conj().resolve_conj() * 2,
        lambda z: torch.dot(z[0].conj(), z[1]),
    ):
        assert torch.equal(view(there).cpu(), view(Z).resolve_conj().resolve_neg())
    leaf, other = there.clone().requires_grad_(), Z.clone().requires_grad_()
    (leaf.conj() * leaf).real.sum().backward()
    (other.conj() * other).real.sum().backward()
    assert torch.equal(leaf.grad.cpu(), other.grad)


def test_complex_numbers_of_the_cpu_take_part(fleet: Loopback) -> None:
    number = torch.tensor(1 + 1j)
    assert torch.equal((Z.to("fleet") + number).cpu(), Z + number)
    assert torch.equal((Z.real.to("fleet") * number).cpu(), Z.real * number)
    with pytest.raises(RuntimeError, match="same device"):
        Z.to("fleet") + torch.ones(2, dtype=torch.complex64)


def test_what_cannot_be_sent_is_refused_at_once_and_spoils_nothing(fleet: Loopback) -> None:
    waiting = torch.ones(1, device="fleet") + 1
    with pytest.raises(gt.UnsupportedError, match="at most 64 dimensions"):
        torch.zeros([1] * 65).to("fleet")
    with pytest.raises(gt.UnsupportedError):
        torch.empty([1] * 65, device="fleet") + 1
    assert waiting.item() == 2


def test_reads_within_a_device_context_give_tensors_of_the_cpu(fleet: Loopback) -> None:
    with torch.device("fleet"):
        x = torch.arange(6.0).view(2, 3)
        parts = [x.t().cpu(), x[:, ::2].cpu(), torch.empty(0).cpu(), x.nonzero().cpu()]
        assert torch.get_rng_state().device.type == "cpu"
        assert torch.zeros_like(x, device="cpu").device.type == "cpu"
        assert x[x > 2].tolist() == [3.0, 4.0, 5.0]
    assert {part.device.type for part in parts} == {"cpu"}


def test_resizing_keeps_what_fits(fleet: Loopback) -> None:
    x = torch.arange(6.0, device="fleet")
    assert x.resize_(6) is x
    assert x.resize_as_(torch.zeros(2, 2, device="fleet")).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.shape == (2, 2)
    assert x.squeeze_() is x
    assert x[0].t_().tolist() == [0.0, 1.0]
    assert x.transpose_(0, 1).tolist() == [[0.0, 2.0], [1.0, 3.0]]
