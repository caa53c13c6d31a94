"""QuaternionBatchNorm, the module: running E‖f‖², momentum, tracking."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equivariance import assert_equivariant, assert_finite_gradients, assert_gradients, draw, features, rotations
from reqnn.nn import QuaternionBatchNorm
from reqnn.nn.batch_norm import turn_into_batch_norm


def power(x):
    """E‖f‖² of each channel."""
    return x.squared_norm().transpose(0, 1).flatten(1).mean(1)


@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 5), (2, 4, 5, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_uses_the_batch(shape, dtype):
    x = draw(0, *shape, dtype=dtype) * 5
    out = QuaternionBatchNorm(4).to(dtype)(x)
    expected = F.batch_norm(x, None, None, training=True)
    torch.testing.assert_close(out.components, expected.components)


def test_running_power_starts_at_one_and_follows():
    norm, x = QuaternionBatchNorm(4, momentum=0.25).double(), draw(0, 2, 4, 5)
    assert torch.equal(norm.running_power, torch.ones(4).double())
    kept = norm.running_power
    norm(x)
    torch.testing.assert_close(norm.running_power, 0.75 + 0.25 * power(x))
    assert norm.running_power is kept
    assert norm.num_batches_tracked == 1
    for _ in range(60):
        norm(x)
    torch.testing.assert_close(norm.running_power, power(x), rtol=1e-6, atol=0)


def test_eval_uses_the_running_power_and_leaves_it():
    norm, x = QuaternionBatchNorm(4, eps=1e-3).double(), draw(0, 2, 4, 5)
    norm.running_power.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    before = copy.deepcopy(norm.state_dict())
    out = norm.eval()(x)
    torch.testing.assert_close(out.components, x.components / (norm.running_power + 1e-3).sqrt()[:, None])
    assert all(torch.equal(before[key], value) for key, value in norm.state_dict().items())


def test_fresh_in_eval_mode_is_nearly_the_identity():
    x = draw(0, 2, 4, 5)
    torch.testing.assert_close(QuaternionBatchNorm(4).double().eval()(x).components, x.components, rtol=1e-5, atol=0)


def test_momentum_none_averages_over_all_batches():
    norm, batches = QuaternionBatchNorm(4, momentum=None).double(), [draw(seed, 2, 4, 5) for seed in range(4)]
    for x in batches:
        norm(x)
    torch.testing.assert_close(norm.running_power, sum(power(x) for x in batches) / 4)


def test_without_tracking():
    norm, x = QuaternionBatchNorm(4, track_running_stats=False).double(), draw(0, 2, 4, 5)
    assert norm.state_dict() == {}
    assert torch.equal(norm(x).components, norm.eval()(x).components)


def test_no_parameters_and_reset():
    norm = QuaternionBatchNorm(4).double()
    assert list(norm.parameters()) == []
    norm(draw(0, 2, 4, 5))
    norm.reset_parameters()
    assert torch.equal(norm.running_power, torch.ones(4).double())
    assert norm.num_batches_tracked == 0
    assert "4, eps=1e-05, momentum=0.1" in repr(norm)


@given(features(), rotations, st.booleans())
def test_equivariant(x, rotation, training):
    norm = QuaternionBatchNorm(x.shape[1]).double().train(training)
    assert_equivariant(lambda x: copy.deepcopy(norm)(x), x, rotation)


def test_gradients():
    assert_gradients(QuaternionBatchNorm(3).double(), 2, 3, 4)
    assert_finite_gradients(QuaternionBatchNorm(3).double(), 2, 3, 4)
    assert not QuaternionBatchNorm(3)(draw(0, 2, 3)).requires_grad


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm])
def test_torchs_modules_become_one_under_their_name(kind):
    original = kind(6, eps=1e-3, momentum=0.2).double().eval()
    turn_into_batch_norm(original, 2)
    assert type(original) is QuaternionBatchNorm
    assert (original.eps, original.momentum, original.num_features, original.training) == (1e-3, 0.2, 2, False)
    assert torch.equal(original.running_power, torch.ones(2).double())
    assert original(draw(0, 2, 2, 5)).shape == (2, 2, 5)


def test_hooks_are_kept():
    original, seen = nn.BatchNorm1d(6), []
    original.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    turn_into_batch_norm(original, 6)
    original(draw(0, 2, 6, dtype=torch.float32))
    assert seen == [(2, 6)]
