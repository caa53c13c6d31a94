"""What was once revised into another network with no word about it: each is right now, or refused."""

import copy
import pickle

import pytest
import torch

import reqnn
from experiments.networks.pointnet import TransformedPointNet
from networks import silent, turn
from networks.checks import ROTATIONS, calibrate, error
from networks.classifiers import Einsum
from reqnn import InputError, NoRuleError

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


class Aligned(torch.nn.Module):
    """A transformer that returns its transform and the points behind it, as some PointNets write it."""

    def __init__(self, weights: bool = False):
        super().__init__()
        self.weights, self.layer = weights, torch.nn.Linear(3, 9)

    def forward(self, x):
        if self.weights:
            return torch.softmax(x.mT @ x, -1), x
        transform = self.layer(x.amax(2)).view(-1, 3, 3)
        return transform, transform @ x


class AlignedPointNet(torch.nn.Module):
    def __init__(self, weights: bool = False):
        super().__init__()
        self.align, self.conv, self.norm = Aligned(weights), torch.nn.Conv1d(3, 8, 1), torch.nn.BatchNorm1d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x):
        transform, aligned = self.align(x)
        return self.head(torch.relu(self.norm(self.conv(aligned))).amax(2)), transform


def test_a_removed_submodule_that_returns_several_things_still_does():
    net = reqnn.revise(AlignedPointNet(), POINTS, remove=("align",), rules="full").double().eval()
    transform, aligned = net.align(POINTS)
    assert torch.equal(transform, torch.eye(3).expand(4, 3, 3))
    assert aligned is POINTS
    points = POINTS.double()
    assert error(net(points)[0], net(turn(points, 1, ROTATIONS[0]))[0]) < 1e-12
    assert error(net(points)[0], net(points[:, :, ORDER])[0]) < 1e-12


def test_attention_weights_are_no_transform():
    with pytest.raises(InputError, match=r"remove: 'align' returns \(4, 24, 24\) as output 0.*no identity fits"):
        reqnn.revise(AlignedPointNet(weights=True), POINTS, remove=("align",))


class Chosen(torch.nn.Module):
    """The highest-scored points in the order that `topk` gives; a layer over these places."""

    def __init__(self, ordered: bool):
        super().__init__()
        self.ordered, self.score = ordered, torch.nn.Linear(3, 1)
        self.layers = [torch.nn.Linear(3, 8), torch.nn.Linear(8, 8)]
        self.head = torch.nn.Linear(8 * 6, 5)

    def forward(self, x):
        features = x
        for layer in self.layers:
            features = torch.relu(layer(features))
        index = torch.topk(torch.sigmoid(self.score(x))[..., 0], 6, dim=1, sorted=self.ordered)[1]
        return self.head(features.norm(dim=-1, keepdim=True).gather(1, index[..., None]).flatten(1).repeat(1, 8))


@pytest.mark.parametrize("ordered", [True, False])
def test_topk_sorts_if_the_order_of_its_values_matters(ordered):
    torch.manual_seed(0)
    net = reqnn.revise(Chosen(ordered), POINTS.mT, rules="full").double().eval()
    assert net.sorts is not ordered
    assert any("topk(sorted=False) sorts" in note for note in net.report.notes) is not ordered
    points = POINTS.mT.double()
    for again in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert error(net(points), again(points[:, ORDER])) < 1e-10
        assert error(net(points), again(turn(points, 2, ROTATIONS[0]))) < 1e-10


def test_layers_in_plain_lists_are_revised_and_registered():
    model = Chosen(ordered=True)
    net = reqnn.revise(model, POINTS.mT, rules="full", init="copy")
    assert isinstance(model.layers, list)
    assert isinstance(net.model.layers, torch.nn.ModuleList)
    assert any(name.startswith("model.layers.1.") for name, _ in net.named_parameters())
    assert any("plain lists" in note and "layers" in note for note in net.report.notes)


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


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize(
    "options", [{}, {"to_real": False}, {"outputs": ("real", "vectors")}], ids=["auto", "nowhere", "named"]
)
@pytest.mark.parametrize("cls", [silent.Coded, silent.Labelled])
def test_a_cloud_beside_other_outputs_rotates(cls, options, rules):
    torch.manual_seed(0)
    net = reqnn.revise(cls(), POINTS, rules=rules, **options)
    net, points = calibrate(net.double(), (POINTS.double(),)), POINTS.double()
    (first, cloud), (also_first, rotated) = net(points), net(turn(points, 1, ROTATIONS[0])[:, :, ORDER])
    assert error(first, also_first) < 1e-9
    assert error(turn(cloud, 1, ROTATIONS[0]), rotated) < 1e-9
    assert error(cloud, rotated) > 1e-2
    assert any("out are vectors" in note for note in net.report.notes)


def test_logits_beside_a_cloud_have_their_own_head():
    net = reqnn.revise(silent.Labelled(), POINTS)
    assert net.report.to_real == ["classify.2"]
    assert net.classify[2].bias is not None


def test_real_numbers_that_look_like_coordinates():
    """(B, 3, 3), computed from real features."""

    class Matrix(silent.Labelled):
        def forward(self, x):
            logits = torch.log_softmax(self.classify(self.encode(x)), -1)
            return logits, logits[:, :3, None] * logits[:, None, :3]

    net = reqnn.revise(Matrix(), POINTS).eval()
    assert net.report.to_real == ["classify.0"]
    assert error(net(POINTS)[1], net(turn(POINTS, 1, ROTATIONS[0]))[1]) < 1e-4


def test_outputs_are_named_one_by_one():
    net = reqnn.revise(silent.Coded(), POINTS, outputs=("real", "real")).eval()
    assert error(net(POINTS)[1], net(turn(POINTS, 1, ROTATIONS[0]))[1]) < 1e-4
    for wrong in (("real",), ("real", "vector")):
        with pytest.raises(InputError, match="returns 2 tensors: 'real' or 'vectors' for each"):
            reqnn.revise(silent.Coded(), POINTS, outputs=wrong)


def test_functions_on_points_are_known_by_what_they_do():
    torch.manual_seed(0)
    net = reqnn.revise(silent.OtherNames(), POINTS.mT)
    assert sorted(net.report.replaced) == ["around", "ball", "my_fps"]
    rows = {row.operation: row.row for row in net.report.rows}
    assert rows["my_fps"] == "Farthest point sampling"
    assert rows["ball"] == "Grouping (ball query)"
    assert rows["around"] == "Grouping (k-NN)"
    points = POINTS.mT.double()
    net = calibrate(net.double(), (points,))
    expected = net(points)
    assert error(expected, net((points @ ROTATIONS[0].mT)[:, ORDER])) < 1e-9
    for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert torch.equal(twin(points), expected)
    assert silent.OtherNames()(POINTS.mT).shape == (4, 5)


def test_a_function_is_known_on_clouds_with_ties():
    """On a grid the original's neighbours are others than ours, at the same distances; it once stayed, without a word."""
    axis = torch.arange(4.0) - 1.5
    grid = torch.cartesian_prod(axis, axis, axis)[None]
    net = reqnn.revise(reqnn.create_model("dgcnn", num_classes=5, k=8, width=0.125), grid, check=False)
    assert net.report.replaced == ["knn"]
    net = reqnn.revise(silent.OtherNames(choose="largest"), grid, check=False)
    assert "my_fps" not in net.report.replaced
    assert "around" in net.report.replaced


def test_a_choice_of_another_kind_is_left_alone():
    torch.manual_seed(0)
    net = reqnn.revise(silent.OtherNames(choose="largest"), POINTS.mT)
    assert sorted(net.report.replaced) == ["around", "ball"]


def test_an_einsum_with_a_parameter_mixes_channels():
    """Vector Neurons' ReLU mixes the axis of channels; it once took that of the points."""
    torch.manual_seed(0)
    net = reqnn.revise(Einsum(), POINTS.mT, rules="vector-neurons").double().eval()
    points = POINTS.mT.double()
    assert error(net(points), net((points @ ROTATIONS[0].mT)[:, ORDER])) < 1e-9
