import numpy as np
import torch

from reqnn.data import duplicate_groups
from reqnn.data.dataset import different_points, point_codes

CLOUDS = torch.randn(6, 30, 3, generator=torch.Generator().manual_seed(0))


def test_copies_in_any_order_are_found():
    shuffled = CLOUDS[1][torch.randperm(30, generator=torch.Generator().manual_seed(1))]
    points = torch.cat([CLOUDS, shuffled[None], CLOUDS[4:5]])
    assert duplicate_groups(points).tolist() == [0, 1, 2, 3, 4, 5, 1, 4]


def test_a_point_more_or_less_matters():
    other = CLOUDS[0].clone()
    other[3] = other[7]  # the same set of points, not the same cloud
    moved = CLOUDS[0].clone()
    moved[0, 0] = torch.nextafter(moved[0, 0], torch.tensor(9.0))
    assert duplicate_groups(torch.stack([CLOUDS[0], other, moved])).tolist() == [0, 1, 2]


def test_zeros_of_either_sign_are_equal():
    assert duplicate_groups(torch.stack([torch.zeros(2, 3), -torch.zeros(2, 3)])).tolist() == [0, 0]


def test_equal_codes_are_looked_at_again(monkeypatch):
    monkeypatch.setattr("reqnn.data.dataset.point_codes", lambda clouds: np.zeros(clouds.shape[:-1], dtype=np.uint64))
    assert duplicate_groups(torch.cat([CLOUDS[:3], CLOUDS[1:2]])).tolist() == [0, 1, 2, 1]


def test_different_points_keep_their_order():
    cloud = np.array([[1, 2, 3], [0, 0, 0], [1, 2, 3], [3, 2, 1], [-0.0, 0, 0]], dtype=np.float32)
    assert different_points(cloud).tolist() == [[1, 2, 3], [0, 0, 0], [3, 2, 1]]
    assert len(set(point_codes(np.random.default_rng(0).random((10000, 3), dtype=np.float32)).tolist())) == 10000


def test_no_clouds():
    assert duplicate_groups(CLOUDS[:0]).shape == (0,)
