"""Sums and means part by part; norms, distances and spreads are invariant; none runs along x, y, z."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_finite_gradients,
    cloud,
    draw,
    features,
    rotation_matrix,
    rotations,
    strict,
)
from reqnn.errors import NoRuleError
from reqnn.tensor import from_real

from .componentwise import assert_componentwise, assert_follows, numbers

LINEAR = {
    "sum": lambda x: x.sum(),
    "sum(1)": lambda x: x.sum(1),
    "sum keepdim": lambda x: torch.sum(x, -1, True),
    "sum of two": lambda x: torch.sum(x, dim=(0, 2), keepdim=True),
    "sum by axis": lambda x: x.sum(axis=1, keepdims=True),
    "mean": lambda x: x.mean(),
    "mean(-1)": lambda x: x.mean(-1),
    "mean keepdim": lambda x: torch.mean(x, dim=2, keepdim=True),
    "mean of two": lambda x: x.mean([1, 2]),
    "mean in another dtype": lambda x: x.float().mean(1, dtype=torch.float64),
    "cumsum": lambda x: torch.cumsum(x, dim=1),
    "cumsum(-1)": lambda x: x.cumsum(-1),
}


@pytest.mark.parametrize("name", LINEAR)
def test_as_on_each_part(name):
    assert_componentwise(LINEAR[name], 2, 4, 5)


@pytest.mark.parametrize("operation", [lambda x: x.sum(1), lambda x: x.mean(0, keepdim=True), lambda x: x.cumsum(1)])
def test_coordinates_are_followed(operation):
    assert_follows(operation, 2, 4, 6)


NORMS = {  # the same number whether the coordinates are quaternions or real
    "norm": lambda x: x.norm(dim=-1),
    "norm of all": lambda x: x.norm(),
    "torch.norm": lambda x: torch.norm(x, dim=-1, keepdim=True),
    "torch.norm p": lambda x: torch.norm(x, p=2, dim=2),
    "torch.norm fro": lambda x: torch.norm(x, "fro", dim=(1, 2)),
    "linalg.norm": lambda x: torch.linalg.norm(x, dim=-1),
    "linalg.norm ord": lambda x: torch.linalg.norm(x, ord=2, dim=-1, keepdim=True),
    "linalg.vector_norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "norm of points and coordinates": lambda x: x.norm(dim=(1, 2)),
    "dist": lambda x: torch.dist(x, -x),
    "cdist": lambda x: torch.cdist(x, x[:, :2]),
    "cdist p": lambda x: torch.cdist(x, x, p=2.0),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x[:, :1], eps=0.0),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x[:, :1], dim=-1),
    "nn.CosineSimilarity": lambda x: nn.CosineSimilarity(dim=2)(x, x.flip(1)),
    "pairwise differences": lambda x: (x[:, :, None] - x[:, None]).pow(2).sum(-1).sqrt(),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_coordinates(name):
    real = numbers(2, 4, 3)
    torch.testing.assert_close(NORMS[name](from_real(real, -1)), NORMS[name](real))


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_features(name):
    """Features count as points of R^3C."""
    x = draw(0, 2, 4, 5)
    torch.testing.assert_close(NORMS[name](x), NORMS[name](x.components.movedim(0, -1).flatten(-2)))
    assert_equivariant(NORMS[name], x, rotation_matrix(1))


def test_normalize():
    assert_follows(lambda x: F.normalize(x, dim=-1), 2, 4, 3)
    x = F.normalize(draw(0, 2, 4, 5), dim=-1)
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(2, 4).double())
    assert F.normalize(draw(0, 2, 4) * 0, dim=1).components.eq(0).all()


@given(features(), rotations)
def test_invariants(x, rotation):
    assert_equivariant(lambda x: (x.norm(dim=1), x.norm(p=1, dim=1), torch.cdist(x, x), F.normalize(x, dim=1)), x, rotation)
    assert_equivariant(lambda x: (x.var(-1), x.std(dim=(1, 2)), x.mean(2), torch.var_mean(x, 1)), x, rotation)


def test_other_norms_of_features():
    x = draw(0, 2, 4)
    torch.testing.assert_close(x.norm(p=1, dim=1), x.abs().sum(1))
    torch.testing.assert_close(x.norm(float("inf"), 1), x.abs().amax(1))


SPREADS = {
    "var": lambda x: x.var(1),
    "var biased": lambda x: x.var(1, False),
    "var unbiased by keyword": lambda x: torch.var(x, dim=1, unbiased=False, keepdim=True),
    "var correction": lambda x: torch.var(x, dim=(0, 1), correction=0),
    "var of all": lambda x: x.var(),
    "var of all, biased": lambda x: x.var(False),
    "std": lambda x: x.std(1) ** 2,
    "std keepdim": lambda x: torch.std(x, 1, True, True) ** 2,
    "std of all, biased": lambda x: x.std(unbiased=False) ** 2,
    "var_mean": lambda x: torch.var_mean(x, 1)[0],
    "std_mean": lambda x: torch.std_mean(x, dim=1, keepdim=True)[0] ** 2,
}


@pytest.mark.parametrize("name", SPREADS)
def test_spread_is_the_sum_over_parts(name):
    """E‖q − E q‖² = Σ of the three variances."""
    x = draw(0, 2, 4, 5)
    torch.testing.assert_close(SPREADS[name](x), sum(SPREADS[name](part) for part in x.components))


def test_spread_of_all_vectors_on_one_axis():
    """PointMLP: torch.std(groups.reshape(B, -1), dim=-1), over many vectors, not within one."""
    x = cloud(0, 2, 5, 6)
    expected = torch.stack([part.flatten(1) for part in x.components]).var(2).sum(0)
    torch.testing.assert_close(x.reshape(2, -1).var(-1), expected)
    assert_equivariant(lambda x: x.reshape(2, -1).std(dim=-1, keepdim=True), x, rotation_matrix(1))


def test_mean_of_var_mean():
    x = draw(0, 2, 4, 5)
    assert torch.equal(torch.var_mean(x, 1)[1].components, x.mean(1).components)


def test_gradients_at_zero():
    for function in (lambda x: x.norm(dim=1), lambda x: x.std(1), lambda x: F.normalize(x, dim=1), lambda x: x.norm()):
        assert_finite_gradients(function, 2, 4)


ALONG = {
    "sum": lambda x: x.sum(-1),
    "sum of all": lambda x: x.sum(),
    "mean": lambda x: x.mean(2),
    "mean of both": lambda x: x.mean((1, 2)),
    "cumsum": lambda x: x.cumsum(-1),
    "std": lambda x: x.std(-1),
    "var": lambda x: x.var(dim=2),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "1-norm": lambda x: x.norm(p=1, dim=-1),
    "max norm": lambda x: torch.linalg.norm(x, float("inf"), dim=-1),
    "cdist p=1": lambda x: torch.cdist(x, x, p=1),
    "cdist of coordinates": lambda x: torch.cdist(x.mT, x.mT),
    "cdist with real points": lambda x: torch.cdist(x, torch.zeros(2, 4, 3).double()),
    "cdist with features": lambda x: torch.cdist(x, draw(0, 2, 4, 3)),
    "prod": lambda x: x.prod(-1),
    "median": lambda x: x.median(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "any": lambda x: x.any(),
}


@pytest.mark.parametrize("name", ALONG)
def test_what_runs_along_coordinates_raises(name):
    with pytest.raises(NoRuleError):
        ALONG[name](cloud(0, 2, 4, 3))


def test_strict_refuses_extensions():
    with pytest.raises(NoRuleError, match="strict=True refuses"):
        strict(draw(0, 2, 4)).var(1)
    strict(draw(0, 2, 4)).norm(dim=1)
