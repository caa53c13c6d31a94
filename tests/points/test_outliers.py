import torch

from reqnn.points import inliers
from reqnn.points.outliers import without_outliers

from .clouds import generic, moved


def with_strays(seed, far=1e4):
    xyz = generic(seed, 200)
    xyz[:, 3], xyz[0, 7] = far, -2 * far
    return xyz


def test_stray_points_are_found_in_any_orientation_order_and_size():
    xyz = with_strays(0)
    kept = inliers(xyz)
    assert (~kept).nonzero().tolist() == [[0, 3], [0, 7], [1, 3]]
    turned, order = moved(xyz, 1)
    assert torch.equal(inliers(1e-3 * turned + 5), kept[:, order])
    assert inliers(generic(2, 200)).all()
    assert inliers(torch.ones(2, 9, 3)).all()


def test_copies_of_inner_points_take_their_places():
    xyz = with_strays(1)
    calm = without_outliers(xyz)
    kept = inliers(xyz)
    assert torch.equal(calm[kept], xyz[kept])
    assert calm.abs().max() < 10
    for b in range(2):
        assert all((calm[b, i] == xyz[b, kept[b]]).all(1).any() for i in (~kept[b]).nonzero()[:, 0])
    turned, _ = moved(xyz, 2)
    norms = [x.norm(dim=-1).sort(1).values for x in (calm, without_outliers(turned))]
    torch.testing.assert_close(norms[0], norms[1])
