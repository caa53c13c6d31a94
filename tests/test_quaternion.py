"""The algebra of quaternion.py against its axioms, against matrices, and its gradients at singular places."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqnn import quaternion as Q
from reqnn.errors import InputError

DTYPES = [torch.float32, torch.float64]
seeds = st.integers(0, 2**31 - 1)


def draw(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def unit(*parts):
    return torch.tensor(parts, dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_shapes_and_dtypes(dtype, shape):
    q = Q.random_rotation(shape, dtype=dtype)
    v = torch.randn(*shape, 3, dtype=dtype)
    for f in (Q.conjugate, Q.inverse, Q.exp, Q.log):
        assert f(q).shape == (*shape, 4)
        assert f(q).dtype == dtype
    assert Q.norm(q).shape == shape
    assert [x.shape for x in Q.polar_form(q)] == [shape, (*shape, 3), shape]
    assert Q.to_matrix(q).shape == (*shape, 3, 3)
    assert Q.rotate(q, v).shape == (*shape, 3)
    assert Q.random_matrix(shape, dtype=dtype).dtype == dtype
    torch.testing.assert_close(Q.multiply(q, Q.inverse(q)), unit(1, 0, 0, 0).to(dtype).expand(*shape, 4))


def test_products_of_the_basis():
    one, i, j, k = torch.eye(4, dtype=torch.float64)
    for p, q, pq in [(i, j, k), (j, k, i), (k, i, j), (j, i, -k), (k, j, -i), (i, k, -j), (i, i, -one), (one, k, k)]:
        assert torch.equal(Q.multiply(p, q), pq)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_algebra(seed):
    p, q, r = draw(seed, 3, 7, 4)
    close = torch.testing.assert_close
    close(Q.multiply(Q.multiply(p, q), r), Q.multiply(p, Q.multiply(q, r)))
    close(Q.multiply(p, Q.add(q, r)), Q.add(Q.multiply(p, q), Q.multiply(p, r)))
    close(Q.norm(Q.multiply(p, q)), Q.norm(p) * Q.norm(q))
    close(Q.conjugate(Q.multiply(p, q)), Q.multiply(Q.conjugate(q), Q.conjugate(p)))
    close(Q.scale(Q.norm(p), q), Q.norm(p)[:, None] * q)
    close(Q.scale(2.0, q), q + q)
    close(Q.exp(Q.log(q)), q)
    length, axis, angle = Q.polar_form(q)
    close(Q.scale(length, Q.exp(Q.pure(axis * angle[:, None] / 2))), q)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_rotations(seed):
    generator = torch.Generator().manual_seed(seed)
    r = Q.random_rotation(6, generator, torch.float64)
    s = Q.random_rotation(6, generator, torch.float64)
    v = draw(seed, 6, 3)
    close = torch.testing.assert_close
    close(Q.rotate(r, v), (Q.to_matrix(r) @ v[..., None])[..., 0])
    close(Q.rotate(r, Q.rotate(s, v)), Q.rotate(Q.multiply(r, s), v))
    close(Q.multiply(Q.multiply(r, Q.pure(v)), Q.conjugate(r))[..., 0], torch.zeros(6, dtype=torch.float64))
    back = Q.from_matrix(Q.to_matrix(r))
    close(back * (back * r).sum(-1, keepdim=True).sign(), r)
    axis, angle = Q.to_axis_angle(-r)
    assert (angle <= math.pi).all()
    close(Q.rotate(Q.from_axis_angle(axis, angle), v), Q.rotate(r, v))
    close(Q.from_axis_angle(*Q.polar(r)), r)
    close(Q.rotate(r[:, None], v), (Q.to_matrix(r)[:, None] @ v[..., None])[..., 0])  # broadcasts


def test_known_rotation():
    quarter = Q.from_axis_angle(unit(0, 0, 5), math.pi / 2)
    torch.testing.assert_close(quarter, unit(math.sqrt(0.5), 0, 0, math.sqrt(0.5)))
    torch.testing.assert_close(Q.rotate(quarter, unit(1, 0, 0)), unit(0, 1, 0))


def test_real_quaternions_have_a_polar_form_and_a_logarithm():
    for real in (1.0, -1.0, -2.0):
        q = unit(real, 0, 0, 0)
        torch.testing.assert_close(Q.exp(Q.log(q)), q)
        length, axis, angle = Q.polar_form(q)
        torch.testing.assert_close(Q.scale(length, Q.from_axis_angle(axis, angle)), q)
        assert torch.equal(axis, unit(1, 0, 0))


def test_random_rotations_are_uniform():
    r = Q.random_rotation(20000, torch.Generator().manual_seed(0), torch.float64)
    torch.testing.assert_close(Q.norm(r), torch.ones(20000, dtype=torch.float64))
    torch.testing.assert_close(r.T @ r / 20000, torch.eye(4, dtype=torch.float64) / 4, atol=0.01, rtol=0)
    # on SO(3) the angle has density (1 - cos θ)/π, so E cos θ = -1/2
    assert abs(Q.to_axis_angle(r)[1].cos().mean() + 0.5) < 0.02
    assert Q.to_matrix(r).mean(0).abs().max() < 0.02
    again = Q.random_rotation(20000, torch.Generator().manual_seed(0), torch.float64)
    assert torch.equal(r, again)


def test_gradcheck():
    q, p, v = draw(1, 3, 4).requires_grad_(), draw(2, 3, 4).requires_grad_(), draw(3, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(Q.multiply, (p, q))
    assert torch.autograd.gradcheck(Q.rotate, (q, v))
    assert torch.autograd.gradcheck(lambda v, p: Q.from_axis_angle(v, p[:, 0]), (v, p))
    for f in (Q.exp, Q.log, Q.norm, Q.inverse, Q.polar_form, Q.to_axis_angle, Q.to_matrix):
        assert torch.autograd.gradcheck(f, (q,))
    assert torch.autograd.gradcheck(Q.log, (unit(2, 0, 0, 0).requires_grad_(),))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("real", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("f", [Q.norm, Q.exp, Q.log, Q.polar_form], ids=lambda f: f.__name__)
def test_gradients_are_finite_on_the_real_axis(f, real, dtype):
    if f is Q.log and real == 0:
        pytest.skip("ln 0 is -inf")
    q = torch.tensor([real, 0, 0, 0], dtype=dtype, requires_grad=True)
    out = f(q)
    sum(x.sum() for x in (out if isinstance(out, tuple) else (out,))).backward()
    assert q.grad is not None
    assert torch.isfinite(q.grad).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Q.multiply(torch.ones(3), torch.ones(4)), "size 4"),
        (lambda: Q.norm(torch.ones(4, 3)), "pure"),
        (lambda: Q.pure(torch.ones(4)), "size 3"),
        (lambda: Q.rotate(torch.ones(4), torch.ones(4)), "imaginary"),
        (lambda: Q.conjugate(torch.ones(4, dtype=torch.int64)), "float"),
        (lambda: Q.exp([1, 0, 0, 0]), "list"),
        (lambda: Q.norm(torch.tensor(1.0)), "size 4"),
        (lambda: Q.from_matrix(torch.ones(3, 4)), "3, 3"),
        (lambda: Q.from_matrix(-torch.eye(3)), "no rotation"),
        (lambda: Q.from_matrix(torch.full((3, 3), torch.nan)), "no rotation"),
    ],
)
def test_errors(call, words):
    with pytest.raises(InputError, match=words):
        call()
