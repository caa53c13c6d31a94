"""Matrix products and einsum against the real ones, part by part; inner products of quaternions are invariant."""

import einops
import pytest
import torch
from hypothesis import given

from equivariance import assert_equivariant, cloud, draw, features, rotation_matrix, rotations
from reqnn.errors import NoRuleError
from reqnn.tensor import from_real
from reqnn.tensor.markers import RemovedTransform

from .componentwise import assert_componentwise, numbers

RIGHT, LEFT = numbers(5, 6, seed=1), numbers(7, 4, seed=2)
BATCHED = numbers(2, 5, 6, seed=3)

WITH_REAL = {
    "x @ w": lambda x: x @ RIGHT,
    "w @ x": lambda x: LEFT @ x,
    "matmul": lambda x: torch.matmul(x, BATCHED),
    "matmul by keyword": lambda x: torch.matmul(x, other=BATCHED),
    "bmm": lambda x: torch.bmm(x, BATCHED),
    "bmm method": lambda x: x.bmm(BATCHED),
    "bmm by keyword": lambda x: torch.bmm(input=x, mat2=BATCHED),
    "real bmm": lambda x: BATCHED.mT.bmm(x.transpose(1, 2)),
    "mm": lambda x: x[0].mm(RIGHT),
    "mv": lambda x: torch.mv(x[0], RIGHT[:, 0]),
    "x @ vector": lambda x: x @ RIGHT[:, 0],
    "vector @ x": lambda x: LEFT[0] @ x,
    "one @ matrix": lambda x: x[0, 0] @ RIGHT,
    "one @ vector": lambda x: x[0, 0] @ RIGHT[:, 0],
    "broadcast": lambda x: numbers(3, 1, 7, 4) @ x,
    "broadcast from x": lambda x: x[0] @ BATCHED,
    "baddbmm": lambda x: torch.baddbmm(x @ BATCHED, x, BATCHED, beta=2, alpha=0.5),
    "addbmm": lambda x: torch.addbmm(x[0] @ RIGHT, x, BATCHED, alpha=2),
    "addmm": lambda x: torch.addmm(x[0] @ RIGHT, x[0], RIGHT),
    "einsum": lambda x: torch.einsum("bnc,cd->bnd", x, RIGHT),
    "einsum first": lambda x: torch.einsum("mn,bnc->bmc", LEFT, x),
    "einsum of three": lambda x: torch.einsum("mn,bnc,cd->bmd", LEFT, x, RIGHT),
    "einsum alone": lambda x: torch.einsum("bnc->bc", x),
    "einsum transposed": lambda x: torch.einsum("bnc->ncb", x),
    "einsum with dots": lambda x: torch.einsum("...c,cd->...d", x, RIGHT),
    "einsum of a list": lambda x: torch.einsum("bnc,cd->bdn", [x, RIGHT]),
    "einsum without arrow": lambda x: torch.einsum("bnc,cd", x, RIGHT),
    "einsum with spaces": lambda x: torch.einsum("b n c, c d -> b n d", x, RIGHT),
    "einsum in letters h and x": lambda x: torch.einsum("hxy,yz->hxz", x, RIGHT),
    "einops.einsum": lambda x: einops.einsum(x, RIGHT, "batch point channel, channel out -> batch point out"),
}


@pytest.mark.parametrize("name", WITH_REAL)
def test_with_real_numbers(name):
    assert_componentwise(WITH_REAL[name], 2, 4, 5)


INVARIANT = {
    "x @ yᵀ": (lambda x, y: x @ y.transpose(1, 2), "bnc,bmc->bnm"),
    "bmm": (lambda x, y: torch.bmm(x, y.permute(0, 2, 1)), "bnc,bmc->bnm"),
    "matmul": (lambda x, y: torch.matmul(x.transpose(2, 1), y), "bnc,bnd->bcd"),
    "einsum": (lambda x, y: torch.einsum("bnc,bmc->bnm", x, y), "bnc,bmc->bnm"),
    "einsum of channels": (lambda x, y: torch.einsum("bnc,bnd->bcd", x, y), "bnc,bnd->bcd"),
    "einsum to a number": (lambda x, y: torch.einsum("bnc,bnc->", x, y), "bnc,bnc->"),
    "einsum element-wise": (lambda x, y: torch.einsum("bnc,bnc->bnc", x, y), "bnc,bnc->bnc"),
    "einsum with a real one": (lambda x, y: torch.einsum("bnc,bmc,c->bnm", x, y, RIGHT[:, 0]), None),
    "inner": (lambda x, y: torch.inner(x[0], y[0]), None),
    "dot": (lambda x, y: x[0, 0].dot(y[0, 0]), None),
    "1d @ 1d": (lambda x, y: x[0, 0] @ y[0, 0], None),
    "1d @ 2d": (lambda x, y: x[0, 0] @ y[0].T, None),
    "vecdot": (lambda x, y: torch.linalg.vecdot(x, y), "bnc,bnc->bn"),
    "vecdot of points": (lambda x, y: torch.linalg.vecdot(x, y, dim=1), "bnc,bnc->bc"),
    "sum of products": (lambda x, y: (x * y).sum(-1), "bnc,bnc->bn"),
    "baddbmm": (lambda x, y: torch.baddbmm(torch.zeros(()).double(), x, y.mT), "bnc,bmc->bnm"),
}


@pytest.mark.parametrize("name", INVARIANT)
def test_inner_products(name):
    operation, equation = INVARIANT[name]
    x, y = draw(0, 2, 4, 5), draw(1, 2, 4, 5)
    if equation is not None:
        inputs, output = equation.split("->")
        first, second = inputs.split(",")
        expected = torch.einsum(f"h{first},h{second}->{output}", x.components, y.components)
        torch.testing.assert_close(operation(x, y), expected)
    assert_equivariant(lambda both: operation(*both), [x, y], rotation_matrix(2))


def test_pairwise_products_of_coordinates():
    """The k-NN of DGCNN: x.transpose(2, 1) @ x on (B, 3, N)."""
    real = numbers(2, 3, 6)
    x = from_real(real, 1)
    torch.testing.assert_close(torch.matmul(x.transpose(2, 1), x), real.mT @ real)
    torch.testing.assert_close(torch.einsum("bcn,bcm->bnm", x, x), real.mT @ real)
    distance = (x**2).sum(1, keepdim=True) - 2 * (x.transpose(2, 1) @ x) + (x**2).sum(1, keepdim=True).transpose(2, 1)
    torch.testing.assert_close(distance, torch.cdist(real.mT, real.mT) ** 2)


def test_real_weights_of_coordinates():
    """Interpolation and attention: weights (B, M, N) times points (B, N, 3)."""
    real, weights = numbers(2, 4, 3), numbers(2, 7, 4).softmax(-1)
    for result in (weights @ from_real(real, -1), torch.einsum("bmn,bnc->bmc", weights, from_real(real, -1))):
        assert result.shape == (2, 7, 3)
        torch.testing.assert_close(result.as_real(), weights @ real)
    first = from_real(real.mT.contiguous(), 1) @ weights.mT
    torch.testing.assert_close(first.as_real(), (weights @ real).mT)


@given(features(), rotations)
def test_attention_is_equivariant(x, rotation):
    def attention(x):
        return torch.softmax(x @ x.transpose(-1, -2) / x.shape[-1] ** 0.5, -1) @ x

    assert_equivariant(attention, x, rotation)


def test_removed_transform_is_the_identity():
    x = cloud(0, 2, 4, 3)
    transform = torch.eye(3).expand(2, 3, 3).as_subclass(RemovedTransform)
    assert torch.equal(torch.bmm(x, transform).components, x.components)
    assert torch.equal((transform @ x.transpose(1, 2)).components, x.transpose(1, 2).components)


@given(rotations)
def test_cross_products_turn(rotation):
    x, y = numbers(2, 4, 6), numbers(2, 4, 6, seed=1)
    expected = torch.cat([torch.linalg.cross(x[..., :3], y[..., :3]), torch.linalg.cross(x[..., 3:], y[..., 3:])], -1)
    a, b = from_real(x, -1), from_real(y, -1)
    torch.testing.assert_close(torch.linalg.cross(a, b).as_real(), expected)
    torch.testing.assert_close(torch.cross(a, b, dim=-1).as_real(), expected)
    torch.testing.assert_close(a.cross(b, dim=2).as_real(), expected)
    assert_equivariant(lambda both: torch.linalg.cross(*both), [a, b], rotation)


WRONG = {
    "coordinates @ matrix": lambda x: x @ torch.eye(3).double(),
    "bmm with a transform": lambda x: torch.bmm(x, torch.eye(3).double().expand(2, 3, 3)),
    "einsum with a matrix": lambda x: torch.einsum("bnc,cd->bnd", x, torch.eye(3).double()),
    "einsum of one coordinate each": lambda x: torch.einsum("bnc,c->bnc", x, torch.ones(3).double()),
    "einsum over coordinates": lambda x: torch.einsum("bnc->bn", x),
    "covariance": lambda x: x.transpose(1, 2) @ x,
    "covariance by einsum": lambda x: torch.einsum("bni,bnj->bij", x, x),
    "outer product by einsum": lambda x: torch.einsum("bni,bmj->bnimj", x, x),
    "sums of coordinates by einsum": lambda x: torch.einsum("bni,bnj->bn", x, x),
    "coordinates and points by einsum": lambda x: torch.einsum("bnc,bcn->bn", x, x[:, :3]),
    "coordinates with features": lambda x: x @ draw(0, 2, 3, 5),
    "coordinates with features by einsum": lambda x: torch.einsum("bnc,bcd->bnd", x, draw(0, 2, 3, 5)),
    "sum of coordinates beside features": lambda x: torch.einsum("bnc,bnd->bd", x, draw(0, 2, 4, 5)),
    "three operands": lambda x: torch.einsum("bnc,bnc,bnc->bn", x, x, x),
    "cross with a constant": lambda x: torch.linalg.cross(x, torch.ones(2, 4, 3).double()),
    "cross along points": lambda x: torch.cross(x[:, :3], x[:, :3], dim=1),
    "kron": lambda x: torch.kron(x[0], x[0]),
    "outer": lambda x: torch.outer(x[0, 0], x[0, 0]),
    "svd": lambda x: torch.linalg.svd(x),
    "cov": lambda x: torch.cov(x[0]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_turns_with_the_frame_raises(name):
    with pytest.raises(NoRuleError):
        WRONG[name](cloud(0, 2, 4, 3))


def test_transformers_are_pointed_to():
    with pytest.raises(NoRuleError, match="remove="):
        cloud(0, 2, 4, 3) @ torch.eye(3).double()
