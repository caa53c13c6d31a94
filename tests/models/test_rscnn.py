"""RS-CNN: the convolution against its formula point by point; its REQNN by each rule set and relation."""

import pytest
import torch

from reqnn.auditing import audit
from reqnn.errors import InputError
from reqnn.models import RSCNN
from reqnn.models.grouping import farthest_point_sample
from reqnn.models.rscnn import RelationShapeConv
from reqnn.revision import revise
from reqnn.zoo import create_model
from surfaces import surfaces

SMALL = {"width": 1 / 8, "npoint": (24, 12), "radius": (0.5, 0.9), "nsample": (6, 6)}
RELATED = {
    "paper": lambda xi, xj: torch.cat([(xj - xi).norm()[None], xi, xj, xj - xi]),
    "published": lambda xi, xj: torch.cat([(xj - xi).norm()[None], 0 * xi, xj - xi, xj - xi]),
    "distance": lambda xi, xj: (xj - xi).norm()[None],
}


@pytest.mark.parametrize("relation", RELATED)
def test_convolution_is_its_formula(relation):
    torch.manual_seed(0)
    conv = RelationShapeConv(4, 0.7, 20, (3, 8, 5), relation).double().eval()
    xyz, features = torch.rand(1, 20, 3).double(), torch.randn(1, 20, 3).double()
    centres, out = conv(xyz, features)
    x, linear = xyz[0], conv.mapping
    for s, i in enumerate(farthest_point_sample(xyz, 4)[0]):
        weighted = []
        for j in [j for j in range(20) if (x[j] - x[i]).norm() <= 0.7]:
            h = RELATED[relation](x[i], x[j])[:, None, None]
            w = linear(h[None])[0, :, 0, 0]
            weighted.append(
                torch.relu(conv.bn((w * torch.cat([x[j] - x[i], features[0, j]]))[None, :, None, None])[0, :, 0, 0])
            )
        assert len(weighted) > 2
        expected = conv.raising(torch.stack(weighted).amax(0)[None, :, None])[0, :, 0]
        torch.testing.assert_close(out[0, s], expected)
        assert torch.equal(centres[0, s], x[i])


@pytest.mark.parametrize(("relation", "rules"), [("published", "paper"), ("distance", "full")])
def test_revised_by_other_relations(relation, rules):
    """The relation "paper" is audited in test_audit and rules/test_zoo."""
    net = create_model("rscnn", equivariant=True, rules=rules, relation=relation, **SMALL)
    report = audit(net, surfaces(points=64), rotations=3, permutations=2, modes=("eval",))
    assert report.ok, str(report)
    assert report.rotation_error < 1e-9


def test_revised_without_lifting_the_offset():
    """Its second layer then weighs offsets, one weight per coordinate: these are averaged per vector."""
    net = revise(RSCNN(**SMALL), surfaces(points=64))
    report = audit(net, surfaces(points=64), rotations=3, permutations=2, modes=("eval",))
    assert report.ok, str(report)


def test_unknown_relation():
    with pytest.raises(InputError, match="relation is 'xyz'; it is one of paper, published, distance"):
        RSCNN(relation="xyz")
