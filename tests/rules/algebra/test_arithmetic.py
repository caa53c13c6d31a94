"""Sums and multiples of quaternions; the element-wise inner product."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equivariance import assert_equivariant, cloud, draw, features, gradient, rotations
from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor, from_real
from reqnn.tensor.markers import RemovedBias

from .componentwise import assert_componentwise, assert_follows, numbers

FACTOR = numbers(4, 5, seed=1)

LINEAR = {
    "x + x": lambda x: x + x[:, :1],
    "x - x": lambda x: x[0] - x,
    "torch.add": lambda x: torch.add(x, x[:, :1], alpha=3),
    "add by keyword": lambda x: torch.add(input=x, other=x, alpha=-1),
    "torch.sub": lambda x: torch.sub(x, x[0], alpha=2),
    "torch.subtract": lambda x: torch.subtract(x, x[:1]),
    "torch.rsub": lambda x: torch.rsub(x, x[:1], alpha=2),
    "-x": lambda x: -x,
    "+x": lambda x: +x,
    "torch.negative": torch.negative,
    "x + 0": lambda x: x + 0,
    "0 + x": lambda x: 0 + x,
    "0 - x": lambda x: 0 - x,
    "x - 0": lambda x: x - 0.0,
    "sum()": lambda x: sum([x, x]),
    "2 * x": lambda x: 2 * x,
    "x * 2": lambda x: x * 2.5,
    "x / 2": lambda x: x / 2,
    "real * x": lambda x: FACTOR * x,
    "x * real": lambda x: x * FACTOR,
    "x * wider": lambda x: x * numbers(6, 1, 4, 1),
    "x / real": lambda x: x / FACTOR,
    "x / wider": lambda x: x / numbers(6, 1, 4, 1),
    "torch.mul": lambda x: torch.mul(x, FACTOR),
    "mul by keyword": lambda x: torch.mul(x, other=FACTOR),
    "torch.multiply": lambda x: torch.multiply(FACTOR, x),
    "torch.div": lambda x: torch.div(x, 3),
    "torch.true_divide": lambda x: torch.true_divide(x, FACTOR),
    "0d tensor": lambda x: torch.tensor(3.0) * x / torch.tensor(2),
    "lerp": lambda x: torch.lerp(x, -x, 0.25),
    "lerp by tensor": lambda x: x.lerp(x[:1], FACTOR),
    "addcmul": lambda x: torch.addcmul(x, FACTOR, x, value=2),
    "zeros_like": torch.zeros_like,
    "empty_like, then filled": lambda x: torch.empty_like(x).copy_(x),
}


@pytest.mark.parametrize("name", LINEAR)
def test_as_on_each_part(name):
    assert_componentwise(LINEAR[name], 2, 4, 5)


IN_PLACE = {
    "+=": lambda x, y: x.__iadd__(y),
    "-=": lambda x, y: x.__isub__(y),
    "*=": lambda x, y: x.__imul__(2),
    "*= real": lambda x, y: x.__imul__(FACTOR),
    "/=": lambda x, y: x.__itruediv__(FACTOR),
    "add_": lambda x, y: x.add_(y, alpha=2),
    "sub_": lambda x, y: x.sub_(y),
    "mul_": lambda x, y: x.mul_(3.0),
    "div_": lambda x, y: x.div_(3.0),
    "neg_": lambda x, y: x.neg_(),
    "lerp_": lambda x, y: x.lerp_(y, 0.5),
    "zero_": lambda x, y: x.zero_(),
    "copy_": lambda x, y: x.copy_(y),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    def change(x):
        x = x.clone()
        view = x[:, 1:]
        returned = IN_PLACE[name](x, x[:, :1].clone())
        return x, view, returned

    assert_componentwise(change, 2, 4, 5)


@pytest.mark.parametrize(
    "operation",
    [lambda x: x - x.mean(1, keepdim=True), lambda x: x * 2 + x[:, :1], lambda x: x / numbers(4, 1), lambda x: -x],
)
def test_coordinates_are_followed(operation):
    assert_follows(operation, 2, 4, 6)


def test_a_factor_a_vector():
    """Numbers that are the same for x, y and z scale the vector; others would not turn with it."""
    x, weights = from_real(numbers(2, 4, 6), -1), numbers(2, 4, 2)
    expected = x.as_real() * weights.repeat_interleave(3, -1)
    torch.testing.assert_close((x * weights.repeat_interleave(3, -1)).as_real(), expected)
    torch.testing.assert_close((weights * x).as_real(), expected)
    with pytest.raises(NoRuleError, match="differ between the coordinates"):
        x * numbers(6)
    with pytest.raises(NoRuleError, match="differ between the coordinates"):
        x / numbers(2, 4, 6)


@given(features(), features(), rotations)
def test_inner_products_are_invariant(x, y, rotation):
    y = QuaternionTensor(y.components.flatten(1)[:, : x.shape[-1]].mean(1).view(3, 1, 1, 1))
    assert_equivariant(lambda both: (both[0] * both[1], both[0] ** 2, both[0].square(), both[0].abs()), [x, y], rotation)


def test_inner_product_sums_the_parts():
    x, y = draw(0, 2, 4), draw(1, 4)
    torch.testing.assert_close(x * y, (x.components * y.components[:, None]).sum(0))
    torch.testing.assert_close(x**2, x * x)
    torch.testing.assert_close(x.pow(2), torch.square(x))
    torch.testing.assert_close(torch.abs(x), (x * x).sqrt())
    torch.testing.assert_close(abs(x), x.abs())


def test_sum_of_squares_of_coordinates_is_a_length():
    """The user's own squared distances: (x ** 2).sum(-1) and (x * y).sum(1)."""
    real = numbers(2, 5, 3)
    torch.testing.assert_close((from_real(real, -1) ** 2).sum(-1), (real**2).sum(-1))
    torch.testing.assert_close(torch.sum(from_real(real, -1) ** 2, dim=-1, keepdim=True), (real**2).sum(-1, keepdim=True))
    first = from_real(real.mT.contiguous(), 1)
    torch.testing.assert_close((first * first).sum(1), (real**2).sum(-1))


def test_removed_bias_changes_nothing_but_the_shape():
    x, bias = draw(0, 2, 4), torch.zeros(4).as_subclass(RemovedBias)
    for result in (x + bias, bias + x, x - bias):
        assert torch.equal(result.components, x.components)
    assert (x + torch.zeros(5, 1, 1).as_subclass(RemovedBias)).shape == (5, 2, 4)


def test_gradients():
    assert gradient(lambda x: x.abs(), torch.zeros(3, 4)).eq(0).all()
    assert torch.autograd.gradcheck(lambda c: QuaternionTensor(c).abs(), (numbers(3, 4).requires_grad_(),))
    assert torch.autograd.gradcheck(
        lambda c: QuaternionTensor(c) * QuaternionTensor(c[:, :1]), (numbers(3, 4).requires_grad_(),)
    )


WRONG = {
    "x + 1": lambda x: x + 1,
    "1 - x": lambda x: 1 - x,
    "x - 1": lambda x: x - 1,
    "x + real": lambda x: x + torch.ones(4),
    "real - x": lambda x: torch.ones(4) - x,
    "1 / x": lambda x: 1 / x,
    "x / x": lambda x: x / x,
    "real / x": lambda x: torch.ones(4) / x,
    "x // 2": lambda x: x // 2,
    "x % 2": lambda x: x % 2,
    "div rounded": lambda x: torch.div(x, 2, rounding_mode="floor"),
    "x ** 3": lambda x: x**3,
    "x ** 0.5": lambda x: x**0.5,
    "2 ** x": lambda x: 2**x,
    "x ** x": lambda x: x ** torch.tensor(2),
    "x += 1": lambda x: x.add_(1),
    "x *= x": lambda x: x.mul_(x),
    "x **= 2": lambda x: x.pow_(2),
    "ones_like": torch.ones_like,
    "rand_like": torch.rand_like,
    "full_like": lambda x: torch.full_like(x, 2.0),
    "round": torch.round,
    "floor": torch.floor,
    "sign": torch.sign,
    "addcdiv": lambda x: torch.addcdiv(x, x, x),
    "real.copy_": lambda x: torch.ones(2, 4).copy_(x),
    "copy_ of real": lambda x: x.copy_(torch.zeros(2, 4)),
    "real += x": lambda x: torch.ones(2, 4).add_(x),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_turn_raises(name):
    with pytest.raises(NoRuleError):
        WRONG[name](draw(0, 2, 4))


def test_absolute_values_of_coordinates():
    with pytest.raises(NoRuleError, match="norm of the vector"):
        cloud(0, 2, 4, 3).abs()


def test_coordinates_do_not_meet_features():
    with pytest.raises(NoRuleError):
        cloud(0, 2, 4, 3) + draw(0, 2, 4, 3)
    with pytest.raises(NoRuleError, match="do not match"):
        cloud(0, 2, 3, 3, axis=1) + cloud(0, 2, 3, 3, axis=2)


@given(st.floats(-5, 5), features(rank=2), rotations)
def test_real_multiples_are_equivariant(factor, x, rotation):
    assert_equivariant(lambda x: x * factor - x[:1] / 3 + x, x, rotation)
