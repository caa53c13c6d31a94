"""What was once revised into another network with no word about it: each is right now, or refused."""

import pytest
import torch

import reqnn
from networks import silent
from networks.checks import error
from networks.coordinates import TransformedPointNet
from reqnn import NoRuleError

POINTS = torch.randn(4, 3, 24, generator=torch.Generator().manual_seed(0))
ORDER = torch.randperm(24, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("count", [8, 3, 24])
def test_a_removed_transform_is_known_whatever_the_number_of_points(count):
    """The feature transform is (B, 8, 8): of the shape of its input where there are 8 points."""
    torch.manual_seed(0)
    points = torch.randn(4, 3, count)
    net = reqnn.revise(TransformedPointNet(), points, remove=("stn", "fstn"), vector_axis=1).eval()
    logits, trans, trans_feat = net(points)
    assert torch.equal(trans_feat, torch.eye(8).expand(4, 8, 8))
    assert torch.equal(trans, torch.eye(3).expand(4, 3, 3))
    assert error(logits, net(points.flip(2))[0]) < 1e-5


def test_a_removed_submodule_of_its_inputs_shape_passes_it_on():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.mix, self.head = torch.nn.Conv1d(3, 8, 1), torch.nn.Conv1d(8, 8, 1), torch.nn.Linear(8, 5)

        def forward(self, x):
            return self.head(self.mix(self.first(x)).max(-1)[0])

    net = reqnn.revise(Block(), torch.randn(2, 3, 8), remove=("mix",), check=False)
    assert net.mix.size is None


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
def test_a_learned_set_of_points_is_no_bias(repeated, rules):
    with pytest.raises(NoRuleError, match=r"parameter of shape \(8, 3\).*learned set of points.*coordinates="):
        reqnn.revise(silent.KernelPoints(repeated=repeated), POINTS.mT, rules=rules)


def test_a_function_that_returns_something_else_is_not_replaced():
    with pytest.raises(NoRuleError):
        reqnn.revise(silent.Grouped("knn"), POINTS.mT)


def test_a_function_that_fails_on_quaternions_is_compared_on_numbers():
    net = reqnn.revise(silent.Grouped("knn_point"), POINTS.mT)
    assert net.report.replaced == ["knn_point"]


def test_a_function_that_cannot_be_compared_is_not_replaced(monkeypatch):
    original, calls = silent.knn_point, []

    def knn_point(k, xyz):
        calls.append(k)
        if len(calls) > 1:  # the original network has run
            raise RuntimeError("needs a GPU")
        return original(k, xyz)

    monkeypatch.setattr(knn_point, "__module__", silent.__name__)
    monkeypatch.setattr(silent, "knn_point", knn_point)
    with pytest.raises(NoRuleError, match=r"cannot be compared.*needs a GPU.*replace=\{'knn_point'"):
        reqnn.revise(silent.Grouped("knn_point"), POINTS.mT)
