"""Table 1, "Batch-normalization": f / √(E‖f‖² + ε), here in its functional form; the module is in tests/nn."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
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
from reqnn.errors import NoRuleError


@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 5), (2, 4, 3, 5), (2, 4, 3, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_formula(shape, dtype):
    x = draw(0, *shape, dtype=dtype) * 7
    out = F.batch_norm(x, None, None, training=True)
    power = x.components.square().sum(0).transpose(0, 1).flatten(1).mean(1)
    scale = (power + 1e-5).sqrt().view(-1, *[1] * (len(shape) - 2))
    assert out.components.dtype == dtype
    torch.testing.assert_close(out.components, x.components / scale)
    norms = out.squared_norm().transpose(0, 1).flatten(1).mean(1)
    torch.testing.assert_close(norms, torch.ones(4, dtype=dtype), rtol=1e-4, atol=1e-4)


def test_running_power():
    x, running = draw(0, 2, 4, 5), torch.ones(4).double()
    F.batch_norm(x, None, running, training=True, momentum=0.3)
    power = x.squared_norm().mean((0, 2))
    torch.testing.assert_close(running, 0.7 + 0.3 * power)
    out = F.batch_norm(x, None, running, training=False)
    torch.testing.assert_close(out.components, x.components / (running + 1e-5).sqrt()[:, None])


@given(features(), rotations, st.booleans())
def test_equivariant(x, rotation, training):
    running = torch.rand(x.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_equivariant(lambda x: F.batch_norm(x, None, running.clone(), training=training), x, rotation)
    assert F.batch_norm(x, None, running, training=training).components.isfinite().all()


def test_the_original_fails():
    assert_not_equivariant(nn.BatchNorm1d(6).double())
    statistics = nn.BatchNorm1d(6).double().eval()
    statistics.running_mean += 1
    assert_not_equivariant(statistics)


def test_gradients():
    assert_gradients(lambda x: F.batch_norm(x, None, None, training=True), 2, 3, 4)
    assert_finite_gradients(lambda x: F.batch_norm(x, None, None, training=True), 2, 3, 4)


def test_coordinates_are_normalised_as_vectors():
    x = cloud(0, 2, 6, 5, axis=1)
    out = F.batch_norm(x, None, torch.ones(2).double(), training=True)
    assert out.shape == (2, 6, 5)
    torch.testing.assert_close((out**2).mean((0, 2)), torch.ones(2).double(), rtol=1e-4, atol=1e-4)
    with pytest.raises(NoRuleError, match="lie on axis 2"):
        F.batch_norm(cloud(0, 2, 5, 3), None, None, training=True)


def test_batches_are_independent_in_eval_mode():
    x, running = draw(0, 4, 3, 5), torch.tensor([1.0, 2.0, 3.0]).double()
    alone = F.batch_norm(x[:1], None, running)
    assert torch.equal(alone.components, F.batch_norm(x, None, running)[:1].components)
