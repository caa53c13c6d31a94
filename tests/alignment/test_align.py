"""`align`: exact on copies, close on other samplings, honest about symmetry, and clear about what it cannot take."""

import numpy as np
import pytest
import torch

import reqnn
from equivariance import generator, rotation_matrix
from reqnn.alignment import Alignment, align
from reqnn.alignment.verdict import degrees_between
from reqnn.errors import InputError

SHIFT = torch.tensor([3.0, -2.0, 7.0], dtype=torch.float64)


def odd_shape(count=400, seed=0):
    """Points on an object without symmetries: a bent, uneven ellipsoid with a nose."""
    u = torch.randn(count, 3, generator=generator(seed), dtype=torch.float64)
    u = u / u.norm(dim=-1, keepdim=True)
    radius = 1 + 0.5 * (u @ torch.tensor([0.2, 0.7, -0.6], dtype=torch.float64)).clamp(min=0) ** 3 + 0.3 * u[:, 0] * u[:, 1]
    return u * radius[:, None] * torch.tensor([1.0, 0.7, 0.5], dtype=torch.float64) + 0.2 * u[:, :1] ** 2


def tube(count=400, seed=0, both_ends=True):
    """Points on a cylinder about z; with one end wider where the ends shall differ."""
    numbers = torch.rand(count, 2, generator=generator(seed), dtype=torch.float64)
    angle, height = 2 * torch.pi * numbers[:, 0], 2 * numbers[:, 1] - 1
    radius = 0.4 if both_ends else 0.4 + 0.2 * height
    return torch.stack([radius * angle.cos(), radius * angle.sin(), height], -1)


def box(count=600, seed=0):
    """Points on a box with three different edges."""
    g = generator(seed)
    points = 2 * torch.rand(count, 3, generator=g, dtype=torch.float64) - 1
    side = torch.randint(0, 3, (count,), generator=g)
    points[torch.arange(count), side] = points[torch.arange(count), side].sign()
    return points * torch.tensor([1.0, 0.7, 0.4], dtype=torch.float64)


def copy_of(points, seed=5):
    """The same points in another order, rotated and moved; and the rotation."""
    rotation = rotation_matrix(seed)
    order = torch.randperm(len(points), generator=generator(seed))
    return points[order] @ rotation.T + SHIFT, rotation


@pytest.mark.parametrize("shape", [odd_shape, tube, box])
def test_a_permuted_copy_is_aligned_exactly(shape):
    points = shape()
    target, rotation = copy_of(points)
    found = align(None, points, target)
    assert degrees_between(found.rotation, rotation) < 1e-6
    torch.testing.assert_close(found.translation, SHIFT, rtol=0, atol=1e-8)
    assert found.residual < 1e-8
    assert found.confidence > 0.9
    assert found.ambiguous is False
    assert found.reason == ""
    torch.testing.assert_close(torch.linalg.det(found.rotation), torch.tensor(1.0, dtype=torch.float64))


def test_the_order_of_the_points_does_not_matter():
    source, target = odd_shape(300, 0), odd_shape(300, 1) @ rotation_matrix(2).T
    order = torch.randperm(300, generator=generator(4))
    first, second = align(None, source, target), align(None, source[order], target[order.flip(0)])
    torch.testing.assert_close(first.matrix, second.matrix, rtol=0, atol=1e-9)
    assert first.confidence == pytest.approx(second.confidence)


def test_rotating_the_source_rotates_the_answer():
    source, target, r = odd_shape(300, 0), odd_shape(350, 1), rotation_matrix(8)
    plain, rotated = align(None, source, target), align(None, source @ r.T, target)
    torch.testing.assert_close(rotated.rotation @ r, plain.rotation, rtol=0, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_another_sampling_of_another_size(seed):
    rotation = rotation_matrix(seed)
    found = align(None, odd_shape(500, seed), odd_shape(900, seed + 10) @ rotation.T + SHIFT)
    assert degrees_between(found.rotation, rotation) < 5
    assert not found.ambiguous
    refined = align(None, odd_shape(500, seed), odd_shape(900, seed + 10) @ rotation.T + SHIFT, refine=True)
    assert degrees_between(refined.rotation, rotation) < 5
    assert refined.residual <= found.residual * 1.02
    torch.testing.assert_close(refined.rotation @ refined.rotation.T, torch.eye(3, dtype=torch.float64))
    moved = refined.apply(odd_shape(500, seed))
    assert (moved.mean(0) - SHIFT).norm() < 0.5


def test_a_continuous_symmetry_is_reported():
    found = align(None, tube(500, 0, both_ends=False), tube(500, 1, both_ends=False) @ rotation_matrix(3).T)
    assert found.ambiguous is True
    assert found.confidence < 0.75
    assert "any angle about the axis" in found.reason
    axis = rotation_matrix(3)[:, 2]
    assert degrees_between(found.rotation, rotation_matrix(3)) > 0
    assert (found.rotation[:, 2] @ axis) > 0.98  # the axis itself is found, and which way it points


def test_a_symmetry_by_180_degrees_is_reported():
    found = align(None, box(800, 0), box(800, 1) @ rotation_matrix(3).T)
    assert found.ambiguous
    assert "180°" in found.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_dtype_of_the_source(dtype):
    points = odd_shape()
    target, rotation = copy_of(points)
    found = align(None, points.to(dtype), target.to(dtype))
    assert found.rotation.dtype == found.translation.dtype == found.matrix.dtype == dtype
    assert degrees_between(found.rotation.double(), rotation) < 0.01
    torch.testing.assert_close(found.apply(points.to(dtype)).mean(0), target.to(dtype).mean(0), rtol=1e-4, atol=1e-4)


def test_matrix_axis_angle_and_dict():
    points = odd_shape()
    r = reqnn.quaternion.from_axis_angle(torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64), 1.0)
    found = align(None, points, points @ reqnn.quaternion.to_matrix(r).T + SHIFT)
    assert found.angle.item() == pytest.approx(np.degrees(1.0), abs=1e-6)
    torch.testing.assert_close(found.axis, torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64), rtol=0, atol=1e-7)
    assert found.matrix[3].tolist() == [0, 0, 0, 1]
    assert set(found.to_dict()) >= {"matrix", "axis", "angle", "confidence", "ambiguous", "reason", "residual"}


def test_batches_and_arrays():
    points = torch.stack([odd_shape(200, 0), tube(200, both_ends=False)])
    pairs = [copy_of(cloud, seed) for seed, cloud in enumerate(points)]
    found = align(None, points, torch.stack([target for target, _ in pairs]))
    assert isinstance(found, Alignment)
    assert found.matrix.shape == (2, 4, 4)
    assert found.confidence.shape == found.ambiguous.shape == (2,)
    assert len(found.reason) == 2
    assert degrees_between(found.rotation, torch.stack([rotation for _, rotation in pairs])).max() < 1e-6
    torch.testing.assert_close(
        found.apply(points).mean(1), SHIFT + torch.stack([r @ p.mean(0) for p, (_, r) in zip(points, pairs)])
    )
    alone = align(None, points[0].numpy(), pairs[0][0].numpy())
    torch.testing.assert_close(alone.rotation, found.rotation[0])


def test_few_points():
    one = torch.ones(1, 3)
    found = align(None, one, 3 * one)
    assert found.ambiguous
    assert "coincide" in found.reason
    torch.testing.assert_close(found.translation, 2 * torch.ones(3))
    same = align(None, one.expand(20, 3), odd_shape(20).float())
    assert "coincide" in same.reason
    two = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
    found = align(None, two, two @ rotation_matrix(1).T)
    assert found.ambiguous
    assert found.confidence == 0
    assert "on one line" in found.reason
    assert found.residual < 1e-8


def test_points_on_a_line_and_in_a_plane():
    line = torch.linspace(0, 1, 60, dtype=torch.float64)[:, None] ** 2 * torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    found = align(None, line, line @ rotation_matrix(1).T)
    assert "on one line" in found.reason
    assert found.residual < 1e-6
    flat = odd_shape(300) * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    target, rotation = copy_of(flat)
    assert degrees_between(align(None, flat, target).rotation, rotation) < 1e-5


def test_repeated_points_and_ties():
    grid = torch.cartesian_prod(*[torch.arange(5, dtype=torch.float64)] * 3)
    grid = torch.cat([grid[grid.sum(-1) < 7], grid[:9]])  # a corner of a lattice, some of it twice: many equal distances
    target, rotation = copy_of(grid)
    found = align(None, grid, target)
    assert found.residual < 1e-6
    # the corner is the same under cyclic changes of its axes, but for the points that are there twice
    symmetries = [torch.eye(3, dtype=torch.float64)[list(order)] for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
    assert min(float(degrees_between(found.rotation, rotation @ r)) for r in symmetries) < 1e-4


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (torch.zeros(5, 2), torch.zeros(5, 3), r"source has shape .*5, 2\); \(B, N, 3\)"),
        (torch.zeros(0, 3), torch.zeros(5, 3), "is empty; at least one point"),
        (torch.zeros(5, 3), torch.full((5, 3), torch.nan), "target holds NaN"),
        (torch.zeros(5, 3, dtype=torch.int64), torch.zeros(5, 3), "source has dtype torch.int64; a floating one"),
        (torch.zeros(2, 5, 3), torch.zeros(3, 5, 3), "two batches of the same size"),
        (torch.zeros(5, 3), torch.zeros(1, 5, 3), "two batches of the same size"),
        ("cloud.ply", torch.zeros(5, 3), "source is a str"),
        (odd_shape(), 5 * odd_shape(), "a factor of 5; bring both to the same units"),
    ],
)
def test_what_is_no_cloud_is_refused(source, target, message):
    with pytest.raises(InputError, match=message):
        align(None, source, target)


def test_the_top_level_name():
    assert reqnn.align is align
    assert reqnn.Alignment is Alignment


def test_clouds_that_do_not_fit_lower_the_confidence():
    """The same object in two sizes: the orientation is right, the fit is not."""
    surface = odd_shape(2048)
    rotation = rotation_matrix(7)
    source, target = surface[:1024], 1.9 * surface[1024:] @ rotation.T
    found = align(None, source, target)
    assert found.relative_residual > 0.15
    assert found.relative_residual == pytest.approx(found.residual / root_mean_square_radius(target), rel=0.05)
    assert found.ambiguous
    assert "of their radius only" in found.reason
    same = align(None, source, target / 1.9)
    assert not same.ambiguous
    assert same.relative_residual < 0.1


@pytest.mark.parametrize("refine", [False, True])
def test_the_scale_is_found_on_request(refine):
    surface = odd_shape(1024)
    rotation, shift = rotation_matrix(7), torch.tensor([5.0, 6.0, 7.0], dtype=torch.float64)
    target = 1000 * surface @ rotation.T + shift
    found = align(None, surface, target, refine=refine, scale=True)
    assert found.scale == pytest.approx(1000, rel=1e-9)
    assert degrees_between(found.rotation, rotation) < 1e-4
    assert (found.apply(surface) - target).abs().max() < 1e-3
    assert torch.allclose(found.matrix[:3, :3], 1000 * rotation, rtol=0, atol=1e-3)
    two = align(None, surface[None], target[None], scale=True)
    assert two.scale.tolist() == pytest.approx([1000], rel=1e-9)
    assert torch.allclose(two.apply(surface[None])[0], target, rtol=0, atol=1e-3)


def root_mean_square_radius(cloud):
    return float((cloud - cloud.mean(0)).square().sum(-1).mean().sqrt())
