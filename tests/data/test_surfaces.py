import torch

from reqnn import points
from reqnn.data import surfaces


def test_shapes_and_scale():
    xyz, normals = surfaces(3, 200)
    assert xyz.shape == normals.shape == (3, 200, 3)
    assert torch.allclose(xyz.norm(dim=-1).amax(1), torch.ones(3, dtype=torch.float64))
    assert torch.allclose(normals.norm(dim=-1), torch.ones(3, 200, dtype=torch.float64))


def test_normals_stand_on_the_surface():
    """Neighbours lie in the tangent plane: differences are nearly orthogonal to the normal, and it points outward."""
    xyz, normals = surfaces(2, 4000)
    near = points.knn(xyz, xyz[:, :50], 4)[..., 1:]
    for cloud, normal, index in zip(xyz, normals, near, strict=True):
        offsets = torch.nn.functional.normalize(cloud[index] - cloud[:50, None], dim=-1)
        assert (offsets * normal[:50, None]).sum(-1).abs().mean() < 0.05
        assert ((cloud * normal).sum(-1) > 0).double().mean() > 0.95


def test_the_same_each_time_and_all_different():
    assert torch.equal(surfaces(2, 50)[0], surfaces(2, 50)[0])
    assert not torch.equal(surfaces(2, 50)[0], surfaces(2, 50, seed=1)[0])
    first, second = surfaces(2, 50)[0]
    assert not torch.allclose(first, second, atol=1e-2)


def test_no_ties_and_unique_frames():
    xyz, _ = surfaces(4, 128)
    assert not points.count_ties(xyz, xyz, 16).any()
    assert not points.frame_ambiguity(xyz).any()
