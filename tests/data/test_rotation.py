import math

import pytest
import torch

from reqnn.data import PROTOCOLS, random_rotations, rotate
from reqnn.data.rotation import rotate_by
from reqnn.errors import InputError

CLOUDS = torch.randn(6, 20, 3, generator=torch.Generator().manual_seed(1))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clouds_turn_by_the_matrices_that_come_with_them(protocol, dtype):
    points = CLOUDS.to(dtype)
    rotated, matrices = rotate(points, protocol, seeded())
    assert rotated.dtype == matrices.dtype == dtype
    assert torch.allclose(rotated, points @ matrices.mT, atol=1e-6)
    exact = random_rotations(6, protocol, seeded())
    assert torch.allclose(exact @ exact.mT, torch.eye(3, dtype=torch.float64), atol=1e-14)
    assert torch.allclose(torch.linalg.det(exact), torch.ones(6, dtype=torch.float64))


def test_the_generator_decides():
    first, again, other = (rotate(CLOUDS, "AR", seeded(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=0.1)
    assert rotate(CLOUDS, "AR")[0].shape == CLOUDS.shape


def test_nr_leaves_the_clouds_alone():
    rotated, matrices = rotate(CLOUDS, "NR", seeded())
    assert torch.equal(rotated, CLOUDS)
    assert torch.equal(matrices, torch.eye(3).expand(6, 3, 3))


@pytest.mark.parametrize(("protocol", "axis"), [("y", 1), ("z", 2)])
def test_a_vertical_axis_stays(protocol, axis):
    rotated, matrices = rotate(CLOUDS.double(), protocol, seeded())
    assert torch.allclose(rotated[..., axis], CLOUDS[..., axis].double(), atol=1e-12)
    assert torch.allclose(matrices[:, axis, axis], torch.ones(6, dtype=torch.float64))
    angles = random_rotations(20000, protocol, seeded())[:, 0, 0].acos()
    assert float(angles.mean()) == pytest.approx(math.pi / 2, abs=0.03)


def test_arbitrary_rotations_are_uniform_on_so3():
    """Haar measure: any direction goes anywhere, and the angle has density (1 − cos θ)/π, so E θ = π/2 + 2/π."""
    matrices = random_rotations(20000, "AR", seeded())
    assert matrices.mean(0).abs().max() < 0.02
    assert torch.allclose(matrices.square().mean(0), torch.full((3, 3), 1 / 3, dtype=torch.float64), atol=0.01)
    trace = matrices.diagonal(dim1=1, dim2=2).sum(1)
    angle = ((trace - 1) / 2).clamp(-1, 1).acos()
    assert float(angle.mean()) == pytest.approx(math.pi / 2 + 2 / math.pi, abs=0.02)


def test_a_cloud_turns_the_same_in_every_batch():
    matrices = random_rotations(6, "AR", seeded())
    whole = rotate_by(CLOUDS, matrices)
    assert all(torch.equal(rotate_by(CLOUDS[i : i + 1], matrices[i : i + 1])[0], whole[i]) for i in range(6))


def test_bad_input():
    with pytest.raises(InputError, match="NR, y, z, AR"):
        rotate(CLOUDS, "SO3")
    with pytest.raises(InputError, match=r"\(B, N, 3\)"):
        rotate(CLOUDS[0], "AR")
