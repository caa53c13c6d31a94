"""A revised network whose parts are exchanged, frozen or written to goes by the new ones, as any network does."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import reqnn
from reqnn.errors import InputError, NoRuleError, ReqnnError
from reqnn.rules import RuleSet
from reqnn.train.prediction import recalibrate

GROUPED = {"num_classes": 4, "width": 1 / 16, "npoint": (16, 8), "nsample": (4, 4)}
EDGES = {"num_classes": 4, "width": 1 / 16, "k": 4}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def points():
    return torch.randn(3, 32, 3, generator=torch.Generator().manual_seed(0))


def norms(net):
    return [module for module in net.modules() if "BatchNorm" in type(module).__name__]


@pytest.mark.parametrize("name", ["pointnet2", "pointconv"])
def test_frozen_norms_stay_frozen_where_the_ordinary_code_runs(name, points, monkeypatch):
    monkeypatch.setattr("reqnn.kernels.run.enabled", False)
    net = reqnn.create_model(name, equivariant=True, **GROUPED).train()
    for norm in norms(net):
        norm.eval()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    net(points)
    assert not any(norm.training for norm in norms(net))
    assert all(value.equal(before[key]) for key, value in net.state_dict().items())


def test_statistics_are_estimated_anew_where_the_ordinary_code_runs(points, monkeypatch):
    fused = reqnn.create_model("pointnet2", equivariant=True, **GROUPED).eval()
    plain = copy.deepcopy(fused)
    recalibrate(fused, [points])
    monkeypatch.setattr("reqnn.kernels.run.enabled", False)
    recalibrate(plain, [points])
    torch.testing.assert_close(plain.state_dict(), fused.state_dict(), rtol=1e-3, atol=1e-3)
    assert not plain.training


@pytest.mark.parametrize("rules", ["paper", "vector-neurons", "full"])
def test_synchronised_norms_take_the_place_of_the_old_ones(rules, points):
    points = points.double()  # the generic rules round differently
    net = reqnn.create_model("dgcnn", equivariant=True, rules=rules, **EDGES).double()
    recalibrate(net, [points])
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net)).eval()
    torch.testing.assert_close(converted(points), net.eval()(points), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(converted(points)[:1], converted(points[:1]), rtol=1e-9, atol=1e-9)


def test_another_activation_in_a_fused_block(points):
    model = reqnn.create_model("dgcnn", **EDGES)
    model.conv1[2] = nn.ReLU()
    net = reqnn.revise(model, points, rules="full", to_real="conv5").eval()
    turned = points @ reqnn.quaternion.random_matrix(generator=torch.Generator().manual_seed(1)).T
    torch.testing.assert_close(net(turned), net(points), rtol=1e-3, atol=1e-4)


def test_modes_of_parts_that_a_rule_brings(points):
    """The norms of vectors have a batch-norm of their own in this rule set."""
    model = reqnn.create_model("dgcnn", **EDGES).train()
    model.bn1.eval()
    net = reqnn.revise(model, points, rules="vector-neurons", to_real="conv6")
    assert not any(part.training for part in net.model.bn1.modules())
    assert all(part.training for part in net.model.bn2.modules())


class Skip(nn.Module):
    def __init__(self, in_place):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 6, 1, bias=False), nn.Conv1d(6, 6, 1, bias=False)
        self.bias, self.head = nn.Parameter(torch.randn(1, 6, 1)), nn.Linear(6, 4)
        self.in_place = in_place

    def forward(self, x):
        x = self.conv1(x)
        y = x + self.bias
        if self.in_place:
            y += self.conv2(x)
        else:
            y = y + self.conv2(x)
        return self.head((y + x).max(dim=-1)[0])


def test_a_sum_with_a_dropped_bias_is_no_alias(points):
    nets = [reqnn.revise(Skip(in_place), points.mT).eval() for in_place in (True, False)]
    nets[1].load_state_dict(nets[0].state_dict())
    torch.testing.assert_close(nets[0](points.mT), nets[1](points.mT))


def test_a_head_is_exchanged_by_assignment(points):
    net = reqnn.revise(Skip(False), points.mT).eval()
    net.head = nn.Linear(net.head.in_features, 10)
    assert net(points.mT).shape == (3, 10)
    assert net.model.head is net.head
    turned = points @ reqnn.quaternion.random_matrix(generator=torch.Generator().manual_seed(1)).T
    torch.testing.assert_close(net(turned.mT), net(points.mT), rtol=1e-4, atol=1e-5)
    net.in_place = True
    assert net.model.in_place
    net.classes = ("a", "b")  # the network has no such name: it is the wrapper's
    assert not hasattr(net.model, "classes")
    del net.in_place
    assert not hasattr(net.model, "in_place")


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(3, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.head(self.embed(x).max(dim=1)[0])


@pytest.mark.parametrize("bias", [True, False])
def test_a_head_of_several_layers_is_exchanged_by_assignment(points, bias):
    net = reqnn.revise(Sequence(), points).eval()
    wide = net.head[0].in_features
    real = reqnn.revise(Sequence(), points).eval()
    real.load_state_dict(net.state_dict())
    for head in (nn.Linear(wide, 10, bias=bias), nn.Sequential(nn.Linear(wide, 10, bias=bias))):
        net.head = head
        squares = real.features(points).squared_norm()  # what Quaternion2Real gives
        weight = head.weight if isinstance(head, nn.Linear) else head[0].weight
        wanted = squares @ weight.T + (0 if not bias else head.bias if isinstance(head, nn.Linear) else head[0].bias)
        torch.testing.assert_close(net(points), wanted)


@pytest.mark.parametrize("rules", ["paper", "vector-neurons", "full"])
@pytest.mark.parametrize("target", ["head.0", "model.head.0"])
def test_a_layer_inside_a_head_is_exchanged(points, target, rules):
    """By way of the revised model: Quaternion2Real stays where it was, with what it has learned."""
    net = reqnn.revise(Sequence(), points, rules=rules).eval()
    real, learned = [], set(net.report.learned)
    watched = net.head[0]
    watched.register_forward_hook(lambda _, args, out: real.append(args[0]))
    net(points)
    net.set_submodule(target, nn.Linear(watched.in_features, 8))
    assert {f"model.{name}" for name in learned} <= {name for name, _ in net.named_parameters()}  # as an optimizer asks
    torch.testing.assert_close(net(points), net.head(real[0]))
    net.set_submodule(target.removesuffix(".0"), nn.Linear(watched.in_features, 5))
    torch.testing.assert_close(net(points), net.head(real[0]))
    copied = copy.deepcopy(net)
    copied.head = nn.Linear(watched.in_features, 3)
    torch.testing.assert_close(copied(points), copied.head(real[0]))
    net.model.head = None  # nothing there to stand before
    with pytest.raises(TypeError):
        net(points)


@pytest.mark.parametrize("inside", [True, False])
def test_a_layer_is_exchanged_behind_the_back_of_the_revised_model(points, inside):
    net = reqnn.revise(Sequence(), points).eval()
    real, wide = net.features(points).squared_norm(), net.head[0].in_features
    (net.model if inside else net).head[0] = nn.Linear(wide, 8)
    torch.testing.assert_close(net(points), net.head(real))
    net.model.head = nn.Linear(wide, 5)
    torch.testing.assert_close(net(points), net.head(real))


@pytest.mark.parametrize("rules", ["vector-neurons", "full"])
def test_what_was_learned_for_a_place_is_not_lost_in_silence(points, rules):
    """An optimizer that is made now would not train it, and looking for parameters changes nothing."""
    net = reqnn.revise(Sequence(), points, rules=rules).eval()
    before, wide = net.head[0], net.head[0].in_features
    net.head[0] = nn.Linear(wide, 8)
    names = [name for name, _ in net.named_parameters()]
    assert "model.head.0.weight" in names
    assert not net.head[0]._forward_pre_hooks
    with pytest.raises(InputError, match=r"net\.set_submodule\('head\.0', module\) keeps that"):
        net(points)
    net.head[0] = before
    net(points)
    net.set_submodule("head.0", nn.Linear(wide, 8))
    assert len(list(net.parameters())) > len(names)
    net(points)


class Encoder(nn.Module):
    """Features become real in the midst of it."""

    def __init__(self, last):
        super().__init__()
        self.embed, self.fc = nn.Linear(3, 6), last

    def forward(self, x):
        x = self.embed(x).max(dim=1)[0]
        return x if self.fc is None else self.fc(x)


def test_nothing_else_takes_the_place_of_a_layer_that_is_gone(points):
    net = reqnn.revise(nn.Sequential(Encoder(nn.Linear(6, 8)), nn.Linear(8, 4)), points).eval()
    assert list(net.real_before) == ["0.fc"]
    net.model[0].fc = None
    with pytest.raises(ReqnnError):
        net(points)
    net.model[0].fc = nn.Linear(6, 8)
    assert net.features(points).shape == (len(points), 6)
    assert net(points).shape == (len(points), 4)


class Named(nn.Module):
    """A network with the names that a revised model has for itself."""

    def __init__(self):
        super().__init__()
        self.strict, self.rules, self.auto_real = True, ["first"], "no"
        self.inputs, self.report = nn.Linear(3, 6), nn.Linear(6, 4)

    def forward(self, x):
        assert (self.strict, self.rules, self.auto_real) == (True, ["first"], "no")
        return self.report(self.inputs(x).max(dim=1)[0])


def test_names_that_the_network_and_the_wrapper_both_have(points):
    net = reqnn.revise(Named(), points).eval()
    turned = points @ reqnn.quaternion.random_matrix(generator=torch.Generator().manual_seed(1)).T
    torch.testing.assert_close(net(turned), net(points), rtol=1e-4, atol=1e-5)
    assert isinstance(net.model.inputs, nn.Linear)
    assert "Quaternion2Real before: report" in str(net.report)
    assert net.strict is False


@pytest.mark.parametrize("rules", ["paper", "vector-neurons", "full"])
def test_another_convolution_in_a_fused_block_is_not_half_heeded(rules, points):
    """Its bias would not turn, and the maps of `full` belong to the convolution they were made for."""
    net = reqnn.create_model("dgcnn", equivariant=True, rules=rules, **EDGES).eval()
    before = net.model.conv2[0]
    net.model.conv2[0] = nn.Conv2d(before.in_channels, before.out_channels, 1, bias=True)
    with pytest.raises(ReqnnError):
        net(points)


def test_a_real_norm_among_quaternions_is_refused(points):
    net = reqnn.create_model("dgcnn", equivariant=True, **EDGES).eval()
    net.model.conv2[1] = nn.BatchNorm2d(4)
    with pytest.raises(NoRuleError, match="a bias is a fixed direction"):
        net(points)


class Picked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(3, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.embed(x[:, np.array([0, 2, 4])]).max(dim=1)[0])


def test_an_index_of_numpy(points):
    net = reqnn.revise(Picked(), points, check=False).eval()  # it depends on the order of the points
    changed = points.clone()
    changed[:, 1] += 1
    torch.testing.assert_close(net(changed), net(points))
    changed[:, 2] += 1
    assert (net(changed) - net(points)).abs().max() > 1e-4


def keep(x):
    return x


def test_rules_of_a_set_with_other_constants_stay_with_it():
    paper = reqnn.get_rules("paper")
    mine = paper.with_options(c=0.3)
    mine.rule("asinh")(keep)
    assert mine.find("asinh").apply is keep
    assert paper.find("asinh") is None
    assert mine.find("relu") is paper.find("relu")
    later = paper.with_options(c=0.3)
    paper.rule("asinh")(keep)
    try:
        assert later.find("asinh").apply is keep
    finally:
        del paper.functions["asinh"]


def test_sets_are_pickled_with_the_rules_of_their_own():
    paper = reqnn.get_rules("paper")
    assert pickle.loads(pickle.dumps(paper)) is paper
    other = pickle.loads(pickle.dumps(paper.with_options(c=0.3)))
    assert (other.option("c"), other.find("relu")) == (0.3, paper.find("relu"))
    mine = RuleSet("mine", parent=paper)
    mine.rule("asinh")(keep)
    again = pickle.loads(pickle.dumps(mine))
    assert (again.name, again.find("asinh").apply) == ("mine", keep)
    assert again.parent is paper
