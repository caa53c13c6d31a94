"""Edge convolutions on a hierarchy of farthest points: the levels, the equivariance of its revision, and its mistakes."""

import pytest
import torch

from reqnn.auditing import audit
from reqnn.errors import InputError
from reqnn.models.grouping import farthest_point_sample, index_points, knn_point
from reqnn.zoo import create_model
from surfaces import surfaces

pytestmark = pytest.mark.usefixtures("zoo")


def test_size():
    assert sum(p.numel() for p in create_model("hierarchical_edgeconv").parameters()) == 627_944


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_the_audit_passes(rules):
    options = {"npoint": (48, 24, 16), "nsample": (8, 8, 12), "width": 1 / 16}
    net = create_model("hierarchical_edgeconv", equivariant=True, rules=rules, **options).eval()
    report = audit(net, surfaces(points=64), rotations=3, permutations=2, vector_axis=-1)
    assert report.ok, str(report)


def test_levels_of_the_hierarchy():
    """Each on the farthest points of the one before, among all of which it finds neighbours."""
    torch.manual_seed(0)
    net = create_model("hierarchical_edgeconv", num_classes=5, width=1 / 16, npoint=(24, 12), nsample=(8, 6)).eval()
    points = torch.rand(3, 40, 3, generator=torch.Generator().manual_seed(1)) - 0.5
    seen = [[], []]
    for level, inputs in zip(net.levels, seen, strict=True):
        level[0].register_forward_hook(lambda module, given, output, inputs=inputs: inputs.append(given[0]))
        level.register_forward_hook(lambda module, given, output, inputs=inputs: inputs.append(output))
    net(points)
    sampled = index_points(points, farthest_point_sample(points, 24))
    again = index_points(sampled, farthest_point_sample(sampled, 12))
    features = seen[0][1]
    idx = knn_point(6, sampled, again)
    own = features[:, :12].unsqueeze(2)
    expected = [
        index_points(sampled, idx) - again.unsqueeze(2),
        index_points(features, idx) - own,
        own.expand(-1, -1, 6, -1),
    ]
    torch.testing.assert_close(seen[1][0], torch.cat(expected, 3).permute(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("npoint", "nsample", "message"),
    [
        ((), (), "one number of points and of neighbours per level"),
        ((24, 12), (8,), "one number of points and of neighbours per level"),
        ((12, 24), (8, 6), "must not increase"),
        ((24, 12), (8, 25), "at most as many neighbours"),
        ((24, 0), (8, 6), "must not increase"),
    ],
)
def test_levels_that_do_not_fit(npoint, nsample, message):
    with pytest.raises(InputError, match=message):
        create_model("hierarchical_edgeconv", npoint=npoint, nsample=nsample)
