import pytest
import torch

from reqnn.data import PointClouds
from reqnn.data.summary import shared_clouds, summarise


def make(points):
    return PointClouds(points, torch.arange(len(points)) % 2, ("a", "b", "c"), "mine", "train")


def test_figures():
    points = torch.rand(6, 50, 3, generator=torch.Generator().manual_seed(0))
    points[4] = points[1].flip(0)
    points[2, 7] = points[2, 8]
    found = summarise(make(points))
    assert found["clouds"] == 6
    assert found["points"] == 50
    assert found["counts"] == {"a": 3, "b": 3, "c": 0}
    assert found["duplicates"] == 1
    assert found["coincident"] == 1
    assert found["tied"] < 0.1
    assert found["radius"][1] == pytest.approx(float(points.norm(dim=-1).max()), abs=1e-4)


def test_a_grid_is_full_of_ties():
    line = torch.linspace(-1, 1, 5)
    grid = torch.cartesian_prod(line, line, line)[None]
    assert summarise(make(grid))["tied"] == 1.0


def test_one_point_a_cloud():
    assert summarise(make(torch.ones(2, 1, 3)))["tied"] == 0


def test_shared_clouds():
    points = torch.rand(6, 10, 3, generator=torch.Generator().manual_seed(0))
    assert shared_clouds(make(points[:4]), make(points[2:])) == 2
    assert shared_clouds(make(points), make(points[:, :5])) == 0
