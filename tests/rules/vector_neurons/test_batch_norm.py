"""Batch-norm on norms, as a module and as a function."""

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
    draw,
    features,
    rotations,
)
from reqnn.errors import NoRuleError
from reqnn.rules.vector_neurons.batch_norm import FADE, NormBatchNorm
from reqnn.train.prediction import tracking_norms
from reqnn.train.sync import SynchronisedBatchNorm, synchronise
from rules.vector_neurons.layers import on_quaternions


def trained(channels=4, kind=nn.BatchNorm1d):
    """A batch-norm with gammas, betas and statistics of its own."""
    norm, generator = kind(channels).double(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            tensor.copy_(0.5 + torch.rand(channels, generator=generator))
    return norm


@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 5), (2, 4, 3, 5)])
def test_formula_in_training(shape):
    norm = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)](4)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    weight, bias = norm.weight.detach().double(), norm.bias.detach().double()
    x = draw(0, *shape)
    net, run = on_quaternions(norm.double(), x)
    assert type(norm) is NormBatchNorm
    length = x.components.square().sum(0).sqrt()
    expected = F.batch_norm(length, None, None, weight, bias, training=True)
    unfaded, long = x.components * (expected / length), (length > 1).expand_as(x.components)
    torch.testing.assert_close(run(x).components[long], unfaded[long], rtol=1e-2, atol=0)
    exact = x.components * expected * length / (length.square() + FADE)
    torch.testing.assert_close(run(x).components, exact)
    assert set(dict(net.named_parameters())) == {"part.norms.weight", "part.norms.bias"}


def test_running_statistics_are_those_of_the_norms():
    x, norm = draw(0, 2, 4, 5), nn.BatchNorm1d(4, momentum=0.3).double()
    net, run = on_quaternions(norm, x)
    norm.norms.reset_running_stats()
    run(x)
    length = x.components.square().sum(0).sqrt()
    torch.testing.assert_close(norm.norms.running_mean, 0.3 * length.mean((0, 2)))
    assert int(norm.norms.num_batches_tracked) == 1
    net.eval()
    alone = run(x[:1])
    torch.testing.assert_close(alone.components, run(x)[:1].components)


def test_the_functional_form():
    x, norm = draw(0, 2, 4, 5), trained()
    arguments = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    _, run = on_quaternions(lambda x: F.batch_norm(x, *arguments, training=False), x)
    length = x.components.square().sum(0).sqrt()
    expected = F.batch_norm(length, *arguments) * length / (length.square() + FADE)
    torch.testing.assert_close(run(x).components, x.components * expected)


@given(features(least=2), rotations, st.booleans())
def test_equivariant(x, rotation, training):
    net, run = on_quaternions(trained(x.shape[1]), x)
    net.train(training)
    assert_equivariant(run, x, rotation)
    assert run(x).components.isfinite().all()


def test_noise_stays_noise():
    """What rounding leaves of a zero vector has no direction, and must get none."""
    x = draw(0, 2, 4, 5)
    x.components[..., 0] *= 1e-16
    net, run = on_quaternions(trained(), x)
    net.eval()
    assert run(x).components[..., 0].abs().max() < 1e-20


def test_the_original_fails():
    assert_not_equivariant(nn.BatchNorm1d(6).double())


@pytest.mark.parametrize("training", [False, True])
def test_gradients(training):
    net, run = on_quaternions(trained(), draw(0, 3, 4, 3))
    net.train(training)
    assert_gradients(run, 3, 4, 3)
    assert_finite_gradients(run, 3, 4, 3)


def test_the_trainer_finds_it():
    net, run = on_quaternions(trained(), draw(0, 3, 4, 3))
    assert tracking_norms(net) == [net.part.norms]
    before = run(draw(0, 3, 4, 3)).components
    synchronise(net)
    assert type(net.part.norms) is SynchronisedBatchNorm
    net.eval()
    assert before.shape == run(draw(0, 3, 4, 3)).components.shape


def test_real_features_are_refused():
    net, _ = on_quaternions(trained(), draw(0, 3, 4, 3))
    with pytest.raises(NoRuleError, match="both parts of the network"):
        net(torch.zeros(3, 4, 3))


def test_bfloat16_statistics_are_in_float32():
    _, run = on_quaternions(nn.BatchNorm1d(4), draw(0, 3, 4, 3, dtype=torch.float32))
    out = run(draw(0, 3, 4, 3, dtype=torch.bfloat16))
    assert out.components.dtype == torch.bfloat16
    assert out.components.isfinite().all()
