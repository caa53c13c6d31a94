"""Row by row, against plain torch in float64."""

import pytest
import torch

from reqnn.kernels.full_rows import gated, gated_reference, invariants, invariants_reference, unit, unit_reference


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("kinds", [2, 3])
@pytest.mark.parametrize("places", [(1,), (300,), (2, 5, 7)])
def test_invariants(places, kinds):
    maps = draw(*places, 3, 4 * kinds)
    torch.testing.assert_close(invariants(maps, 4), invariants_reference(maps, 4), rtol=1e-12, atol=1e-12)
    few = maps.detach().flatten(0, -3)[:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda maps: invariants(maps, 4), few)
    assert torch.autograd.gradgradcheck(lambda maps: invariants(maps, 4), few)


def test_a_vector_of_length_zero_has_a_gradient():
    maps = torch.zeros(2, 3, 6, dtype=torch.float64, requires_grad=True)
    invariants(maps, 2).sum().backward()
    assert torch.equal(maps.grad, torch.zeros_like(maps))


@pytest.mark.parametrize("places", [(1,), (300,), (2, 5, 7)])
def test_gated(places):
    real, imaginary = draw(*places, 5), draw(*places, 3, 5)
    torch.testing.assert_close(gated(real, imaginary), gated_reference(real, imaginary), rtol=1e-12, atol=1e-12)
    few = [tensor.detach().flatten(0, len(places) - 1)[:3].clone().requires_grad_() for tensor in (real, imaginary)]
    assert torch.autograd.gradcheck(gated, few)
    assert torch.autograd.gradgradcheck(gated, few)


def test_only_one_of_them_is_learned():
    real, imaginary = draw(6, 5).detach(), draw(6, 3, 5)
    (of_imaginary,) = torch.autograd.grad(gated(real, imaginary).square().sum(), imaginary, create_graph=True)
    (expected,) = torch.autograd.grad(gated_reference(real, imaginary).square().sum(), imaginary)
    torch.testing.assert_close(of_imaginary, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("places", [(1,), (300,), (2, 5, 7)])
def test_unit_size(places):
    imaginary = draw(*places, 3, 5)
    torch.testing.assert_close(unit(imaginary, 1e-3), unit_reference(imaginary, 1e-3), rtol=1e-12, atol=1e-12)
    few = imaginary.detach().flatten(0, -3)[:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: unit(v, 1e-3), few)
    assert torch.autograd.gradgradcheck(lambda v: unit(v, 1e-3), few)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors_of_rounding_size_become_zero(dtype):
    """What a symmetry makes vanish is left to rounding; brought to unit size it would grow with every layer."""
    imaginary = draw(6, 3, 5).detach().to(dtype)
    imaginary[:3] *= 4 * torch.finfo(dtype).eps
    imaginary[3:] *= 100 * torch.finfo(dtype).eps ** (2 / 3)
    imaginary.requires_grad_()
    for way in (unit, unit_reference):
        found = way(imaginary, 1e-3)
        (gradient,) = torch.autograd.grad(found.square().sum(), imaginary)
        assert not found[:3].any()
        assert not gradient[:3].any()
        torch.testing.assert_close(found[3:], imaginary[3:] * 1e-3**-0.5, rtol=0.1, atol=0)
        assert gradient[3:].all()
