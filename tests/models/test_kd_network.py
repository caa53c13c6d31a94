"""KD-Network: the tree and the climb against a recursion; the random tree; refusals."""

import pytest
import torch

from reqnn.errors import InputError, NoRuleError
from reqnn.models import KDNetwork
from reqnn.models.kd_network import KdTree
from reqnn.revision import revise
from surfaces import surfaces


def climb(net, points):
    """The feature of the root of a set of points (N, 3), by recursion."""
    if len(points) == 1:
        return torch.relu(net.leaf_bn(net.leaf(points[:, :, None])))[0, :, 0]
    axis = int((points.amax(0) - points.amin(0)).argmax())
    lower, upper = points[points[:, axis].argsort()].chunk(2)
    level = net.levels[len(points).bit_length() - 2]
    sides = level.left(climb(net, lower)) + level.right(climb(net, upper))
    return torch.relu(level.bn(sides.unflatten(0, (3, -1))[axis][None, :, None]))[0, :, 0]


def test_it_climbs_the_tree():
    torch.manual_seed(0)
    net = KDNetwork(num_classes=5, width=1 / 8, depth=4).double()
    clouds = torch.randn(3, 16, 3).double()
    for _ in range(3):
        net(clouds)
    net.eval()
    for cloud, logits in zip(clouds, net(clouds), strict=True):
        torch.testing.assert_close(logits, net.head(climb(net, cloud)))


def test_random_axes_follow_the_softmax_of_the_extents():
    torch.manual_seed(0)
    cloud = (torch.rand(1, 8, 3) * torch.tensor([1.0, 0.9, 0.5])).expand(4000, 8, 3)
    extent = cloud[0].amax(0) - cloud[0].amin(0)
    _, axes = KdTree().train()(cloud)
    drawn = torch.bincount(axes[0].flatten(), minlength=3) / 4000
    torch.testing.assert_close(drawn, (10 * extent / extent.sum()).softmax(0), rtol=0, atol=0.03)
    order, axes = KdTree().eval()(cloud)
    assert torch.equal(order.sort(1)[0], torch.arange(8).expand(4000, 8))
    assert axes[0].unique().tolist() == [int(extent.argmax())]


def test_mistakes_and_refusals():
    with pytest.raises(InputError, match="depth=0"):
        KDNetwork(depth=0)
    with pytest.raises(InputError, match=r"2\^depth = 1024 .* only N = 100.*depth="):
        KDNetwork(width=1 / 16)(torch.zeros(2, 100, 3))
    with pytest.raises(NoRuleError, match=r"'tree'(?s:.*)coordinates=.*rules='frames'"):
        revise(KDNetwork(width=1 / 16, depth=5), surfaces(points=32))
