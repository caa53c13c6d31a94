"""PRIN: its grid against a loop over cells; what is invariant exactly, and what is not."""

import math

import pytest
import torch

from reqnn import quaternion, revise
from reqnn.errors import InputError, NoRuleError
from reqnn.models import PRIN
from reqnn.models.prin import spherical_grid
from surfaces import surfaces


def cell(points, b, shells, s, j, k):
    """The mean of 1 − |ρ − (s + 1)| over the points of a cell, point by point."""
    values = []
    for x, y, z in points.tolist():
        r = math.sqrt(x * x + y * y + z * z)
        row = min(int(math.acos(z / r) * 2 * b / math.pi), 2 * b - 1)
        away = (math.atan2(y, x) - math.pi * k / b + math.pi) % (2 * math.pi) - math.pi
        wide = math.pi / (2 * b) / math.sin(math.pi * (2 * j + 1) / (4 * b))
        if row == j and abs(away) < wide and int(shells * r) in (s, s + 1):
            values.append(1 - abs(shells * r - (s + 1)))
    return sum(values) / len(values) if values else 0.0


def test_grid():
    points = torch.randn(2, 60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = points - points.mean(1, keepdim=True)
    points = 0.999 * points / points.norm(dim=2).amax(1)[:, None, None]
    b, shells = 3, 4
    grid = spherical_grid(3 * points + 1, b, shells)  # moved and scaled back
    assert grid.shape == (2, 4, 6, 6)
    places = [(s, j, k) for s in range(shells) for j in range(2 * b) for k in range(2 * b)]
    for cloud, values in zip(points, grid, strict=True):
        expected = [cell(cloud, b, shells, *place) for place in places]
        torch.testing.assert_close(values.flatten(), torch.tensor(expected).double())
        assert 0.2 < (values > 0).double().mean() < 1


def small(**options):
    torch.manual_seed(0)
    net = PRIN(num_classes=5, width=1 / 8, bandwidth=4, shells=4, **options).double()
    for _ in range(5):
        net(surfaces().double())
    return net.eval()


@pytest.mark.parametrize("radial", [True, False])
def test_steps_of_the_grid_about_the_vertical_are_exact_and_other_rotations_are_not(radial):
    net, points = small(radial=radial), surfaces().double()
    angle = torch.tensor(2 * math.pi / 8 * 3, dtype=torch.float64)
    step = quaternion.to_matrix(quaternion.from_axis_angle(torch.tensor([0.0, 0.0, 1.0]).double(), angle))
    torch.testing.assert_close(net(points @ step.T), net(points), rtol=0, atol=1e-10)
    other = quaternion.random_matrix((), torch.Generator().manual_seed(1), torch.float64)
    assert (net(points @ other.T) - net(points)).abs().max() > 0.1 * net(points).std(0).max()


def test_without_radial_channels_the_shells_are_one():
    """A kernel constant in γ, along which the shells lie in the authors' code, sees their mean only."""
    net = small(radial=False)
    grid = spherical_grid(surfaces().double(), 4, 4)
    mixed = net.classify(net.transform.sphere(grid[:, [2, 0, 3, 1]].mean(1, keepdim=True)))
    torch.testing.assert_close(mixed, net(surfaces().double()))


def test_refusals():
    with pytest.raises(NoRuleError, match=r"__getitem__(?s:.*)single coordinate(?s:.*)rules='frames'"):
        revise(small(), surfaces().double())
    with pytest.raises(InputError, match="bandwidth=0"):
        PRIN(bandwidth=0)
