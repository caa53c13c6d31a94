import math

import pytest
import torch

from reqnn.errors import InputError
from reqnn.points import density

from .clouds import DTYPES, Quaternions, generic, moved


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_the_formula(dtype):
    xyz = generic(0, 7, dtype=dtype)
    result = density(xyz, 0.5)
    assert result.dtype == dtype
    for b in range(2):
        for i in range(7):
            terms = [math.exp(-float((xyz[b, i] - x).square().sum()) / (2 * 0.25)) / (2.5 * 0.5) for x in xyz[b]]
            assert float(result[b, i]) == pytest.approx(sum(terms) / 7, rel=1e-5)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_does_not_change_with_orientation_or_order(dtype, error):
    xyz = generic(1, dtype=dtype)
    turned, order = moved(xyz, 1)
    torch.testing.assert_close(density(turned, 0.3), density(xyz, 0.3)[:, order], atol=error, rtol=0)


def test_gradcheck_also_at_duplicates():
    assert torch.autograd.gradcheck(lambda x: density(x, 0.7), (generic(2, 5).requires_grad_(),))
    xyz = generic(2, 3).repeat(1, 2, 1).requires_grad_()
    density(xyz, 0.7).sum().backward()
    assert xyz.grad is not None
    assert torch.isfinite(xyz.grad).all()


def test_one_point_and_quaternions():
    torch.testing.assert_close(density(torch.ones(1, 1, 3), 0.1), torch.tensor([[4.0]]))
    assert torch.equal(density(Quaternions(generic(0)), 0.1), density(generic(0), 0.1))


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), None])
def test_errors(bandwidth):
    with pytest.raises(InputError, match="bandwidth"):
        density(generic(0), bandwidth)
