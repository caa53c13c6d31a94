"""Table 1, "Dropout": whole quaternions, or whole channels of them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_finite_gradients,
    assert_gradients,
    assert_not_equivariant,
    cloud,
    draw,
    features,
    rotations,
)


def seeded(function):
    """The same mask each time."""

    def run(x):
        torch.manual_seed(0)
        return function(x)

    return run


@pytest.mark.parametrize("drop", [nn.Dropout(0.4), lambda x: F.dropout(x, 0.4), lambda x: torch.dropout(x, 0.4, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_quaternions(drop, dtype):
    torch.manual_seed(0)
    x = draw(0, 20, 30, 10, dtype=dtype)
    out = drop(x)
    kept = out.components.ne(0)
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[0], kept[2])
    assert abs(kept[0].double().mean() - 0.6) < 0.03
    torch.testing.assert_close(out.components, x.components * kept / 0.6)


@pytest.mark.parametrize(
    ("module", "shape"),
    [(nn.Dropout1d(), (50, 40, 5)), (nn.Dropout2d(), (50, 40, 5, 2)), (nn.Dropout3d(), (50, 40, 2, 2, 2))],
)
def test_whole_channels(module, shape):
    torch.manual_seed(0)
    x = draw(0, *shape)
    out = module(x)
    kept = out.components.ne(0).flatten(3)
    assert torch.equal(kept, kept[:1, :, :, :1].expand_as(kept))
    assert abs(kept[0, :, :, 0].double().mean() - 0.5) < 0.05
    torch.testing.assert_close(out.components, x.components * out.components.ne(0) * 2)


def test_whole_channels_without_batch():
    torch.manual_seed(0)
    kept = nn.Dropout1d()(draw(0, 40, 5)).components.ne(0)
    assert torch.equal(kept, kept[:1, :, :1].expand_as(kept))
    kept = F.dropout3d(draw(0, 40, 5, 2, 2)).components.ne(0)
    assert torch.equal(kept, kept[:1, :, :1, :1, :1].expand_as(kept))


def test_whole_vectors_of_coordinates():
    torch.manual_seed(0)
    out = F.dropout(cloud(0, 50, 5, 6)).as_real().unflatten(-1, (2, 3))
    assert torch.equal(out.ne(0).any(-1), out.ne(0).all(-1))


@pytest.mark.parametrize("module", [nn.Dropout(0.4), nn.Dropout(0.4, inplace=True), nn.Dropout1d(0.4), nn.Dropout2d(0.4)])
def test_nothing_in_eval_mode(module):
    x = draw(0, 2, 4, 5, 3)
    assert torch.equal(module.eval()(x).components, draw(0, 2, 4, 5, 3).components)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_extremes(p):
    assert torch.equal(F.dropout(draw(0, 2, 4), p).components, draw(0, 2, 4).components * (1 - p))
    assert torch.equal(F.dropout1d(draw(0, 2, 4, 3), p).components, draw(0, 2, 4, 3).components * (1 - p))


def test_in_place():
    torch.manual_seed(0)
    expected = F.dropout(draw(0, 2, 4))
    torch.manual_seed(0)
    x = draw(0, 2, 4)
    assert F.dropout(x, inplace=True) is x
    assert torch.equal(x.components, expected.components)


@given(features(), rotations)
def test_equivariant(x, rotation):
    assert_equivariant(seeded(lambda x: (F.dropout(x, 0.3), F.dropout1d(x, 0.3))), x, rotation)


def test_the_original_fails():
    assert_not_equivariant(seeded(F.dropout))
    assert_not_equivariant(seeded(F.dropout1d))


def test_gradients():
    assert_gradients(seeded(F.dropout), 2, 3, 4)
    assert_finite_gradients(seeded(F.dropout), 2, 3, 4)
