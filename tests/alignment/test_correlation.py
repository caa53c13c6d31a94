"""Horn's closed form."""

import pytest
import torch

from equivariance import generator, rotation_matrix
from reqnn.alignment.correlation import reliability, rotation_between


def vectors(count, seed=0):
    return torch.randn(count, 3, generator=generator(seed), dtype=torch.float64)


def test_exact_on_exact_vectors():
    rotation, x = rotation_matrix(1), vectors(20)
    found, stiffness = rotation_between(x, x @ rotation.T)
    torch.testing.assert_close(found, rotation, rtol=0, atol=1e-13)
    assert stiffness.min() > 1


def test_vectors_in_a_plane_are_enough():
    rotation, x = rotation_matrix(2), vectors(20) * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    found, stiffness = rotation_between(x, x @ rotation.T)
    torch.testing.assert_close(found, rotation, rtol=0, atol=1e-13)
    assert stiffness[2] > 0.1


def test_vectors_on_a_line_leave_an_axis_open():
    x = vectors(20) * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    found, stiffness = rotation_between(x, x @ rotation_matrix(3).T)
    torch.testing.assert_close(found @ found.T, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(x @ found.T, x @ rotation_matrix(3).T)
    assert stiffness[2] < 1e-12 * stiffness[0]


def test_never_a_reflection():
    x = vectors(8)
    found, _ = rotation_between(x, -x)
    torch.testing.assert_close(torch.linalg.det(found), torch.tensor(1.0, dtype=torch.float64))


def test_weights_and_batches():
    rotation, x = rotation_matrix(4), vectors(10)
    y = x @ rotation.T
    y[5:] = vectors(5, seed=9)  # nonsense, …
    weights = torch.cat([torch.ones(5), torch.zeros(5)]).double()  # … which the weights leave out
    found, _ = rotation_between(x.expand(2, 10, 3), y.expand(2, 10, 3), weights.expand(2, 10))
    torch.testing.assert_close(found, rotation.expand(2, 3, 3), rtol=0, atol=1e-13)
    assert (rotation_between(x, y)[0] - rotation).abs().max() > 1e-3


def test_gradients():
    x, y = vectors(6).requires_grad_(), (vectors(6) @ rotation_matrix(5).T + 0.1 * vectors(6, 7)).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: rotation_between(a, b)[0], (x, y))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_no_rotation_fits_better(noise):
    x = vectors(12)
    y = x @ rotation_matrix(6).T + noise * vectors(12, 1)
    found, _ = rotation_between(x, y)
    best = (y - x @ found.T).square().sum()
    for seed in range(20):
        other = rotation_matrix(seed + 100)
        assert (y - x @ other.T).square().sum() >= best - 1e-9


def test_channels_without_noise_have_finite_weights():
    assert reliability(torch.tensor([0.0, 1.0, 4.0])).isfinite().all()
    assert reliability(torch.zeros(3)).isfinite().all()
    weights = reliability(torch.tensor([1.0, 4.0]))
    torch.testing.assert_close(weights[0] / weights[1], torch.tensor(4.0))
