"""Parameters that rules bring along: who holds them, how later passes find them, what becomes of them in copies and files."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reqnn
from reqnn.errors import NoRuleError, SelfCheckError
from reqnn.tensor.running import owner_of_call

POINTS = torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """A functional ReLU, in a module that may run several times."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return F.relu(self.conv(x))


class Net(nn.Module):
    """One ``nn.ReLU`` in two places of different widths, ``F.relu``, ``x.relu_()``, and a block that runs twice."""

    def __init__(self, auxiliary=False):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 6, 1), nn.Conv1d(6, 8, 1), nn.Conv1d(8, 8, 1)
        self.bn1 = nn.BatchNorm1d(6)
        self.relu = nn.ReLU(inplace=True)
        self.block = Block(8)
        self.tail = nn.Sequential(nn.Conv1d(8, 10, 1), nn.BatchNorm1d(10), nn.LeakyReLU(0.2), nn.Conv1d(10, 10, 1), nn.ReLU())
        self.head = nn.Linear(10, 5)
        self.auxiliary = nn.Linear(8, 5) if auxiliary else None

    def forward(self, points):
        x = self.relu(self.bn1(self.conv1(points.transpose(1, 2))))
        x = self.relu(self.conv2(x))
        x = F.relu(self.conv3(x)).relu_()
        x = self.block(self.block(x))
        logits = self.head(self.tail(x).amax(-1))
        if self.auxiliary is not None and self.training:
            return logits, self.auxiliary(F.relu(x).mean(-1))
        return logits


def revised(**options):
    torch.manual_seed(0)
    return reqnn.revise(Net(), POINTS, rules="vector-neurons", **options)


NAMES = {
    "relu_direction_0": (6, 6),
    "relu_direction_1": (8, 8),
    "relu_direction_2": (8, 8),
    "relu_direction_3": (8, 8),
    "block.relu_direction_0": (8, 8),
    "tail.relu_direction_0": (10, 10),
    "tail.relu_direction_1": (10, 10),
    "head.frame_hidden_0": (64, 10),
    "head.frame_direction_0": (64, 64),
    "head.frame_axes_0": (3, 64),
}


def test_owners_and_names():
    net = revised()
    assert net.report.learned == NAMES
    assert {name for name, _ in net.model.named_parameters()} >= set(NAMES)
    assert net.report.parameters_after == sum(p.numel() for p in net.parameters())
    assert "learned by the rules themselves: 10 parameters" in str(net.report)
    assert net.report.to_dict()["learned"] == NAMES
    assert net.head.weight.shape == (5, 30)
    assert revised().report.learned.keys() == NAMES.keys()


def test_invariant_and_trained():
    net = revised().double()
    points, rotation = POINTS.double(), reqnn.quaternion.random_matrix().double()
    torch.testing.assert_close(net.eval()(points @ rotation.T), net(points), rtol=1e-9, atol=1e-9)
    net.train()(points).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert all(net.get_parameter(f"model.{name}").grad.abs().max() > 0 for name in NAMES)


def test_copies_files_and_state():
    net = revised().eval()
    expected = net(POINTS)
    assert torch.equal(copy.deepcopy(net)(POINTS), expected)
    assert torch.equal(pickle.loads(pickle.dumps(net))(POINTS), expected)
    torch.manual_seed(5)
    other = reqnn.revise(Net(), POINTS, rules="vector-neurons").eval()
    assert (other(POINTS) - expected).abs().max() > 1e-4
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(POINTS), expected)


def test_initialisation():
    """Fresh weights are drawn anew with the seed; "copy" keeps the original's, and learned parameters have no original."""
    fresh, again = revised(), revised()
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), again.parameters(), strict=True))
    torch.manual_seed(0)
    model = Net()
    net = reqnn.revise(model, POINTS, rules="vector-neurons", init="copy")
    torch.testing.assert_close(net.conv2.weight, model.conv2.weight)
    assert "conv2.weight" in net.report.copied
    assert not set(net.report.copied) & set(NAMES)
    torch.testing.assert_close(net.head.weight[:, :10] * 3, model.head.weight)
    bound = (3 / 8) ** 0.5
    assert 0.5 * bound < net.relu_direction_1.abs().max() <= bound


def test_other_numbers_of_clouds_and_points():
    net = revised().eval()
    one = net(POINTS[:1, :7])
    assert one.shape == (1, 5)
    torch.testing.assert_close(net(POINTS[:, :7])[:1], one)


def test_layers_that_only_training_reaches():
    torch.manual_seed(0)
    net = reqnn.revise(Net(auxiliary=True), POINTS, rules="vector-neurons")
    assert net.report.learned["relu_direction_4"] == (8, 8)
    assert [out.shape for out in net.train()(POINTS)] == [(4, 5), (4, 5)]
    assert net.eval()(POINTS).shape == (4, 5)


class Looping(nn.Module):
    """A block for each cloud by itself: one module, as many runs as there are clouds."""

    def __init__(self, within=False):
        super().__init__()
        self.first, self.block, self.head, self.within = nn.Conv1d(3, 8, 1), Block(8), nn.Linear(8, 5), within

    def forward(self, points):
        clouds = [self.first(cloud.T.unsqueeze(0)) for cloud in points]
        clouds = [F.relu(cloud) if self.within else self.block(cloud) for cloud in clouds]
        return self.head(torch.cat(clouds).amax(-1))


def test_a_module_that_runs_for_each_cloud():
    net = reqnn.revise(Looping(), POINTS[:2], rules="vector-neurons").eval()
    assert [name for name in net.report.learned if "relu" in name] == ["block.relu_direction_0"]
    assert net(POINTS).shape == (4, 5)


def test_calls_that_the_dry_run_did_not_see():
    with pytest.raises(SelfCheckError, match=r"place of the cloud in the batch.*\n(.*\n)*.*a module of its own"):
        reqnn.revise(Looping(within=True), POINTS[:2], rules="vector-neurons")  # the second cloud has other parameters
    net = reqnn.revise(Looping(within=True), POINTS[:2], rules="vector-neurons", check=False).eval()
    assert net(POINTS[:2]).shape == (2, 5)
    with pytest.raises(NoRuleError, match=r"call 3 of relu in this module.*a module of its own"):
        net(POINTS)


class Widths(nn.Module):
    """A module that meets two widths."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 6, 1), nn.Conv1d(6, 8, 1)
        self.act = Activation()
        self.head = nn.Linear(8, 5)

    def forward(self, points):
        return self.head(self.act(self.second(self.act(self.first(points.transpose(1, 2))))).amax(-1))


class Activation(nn.Module):
    def forward(self, x):
        return F.relu(x)


def test_one_module_for_two_widths():
    with pytest.raises(NoRuleError, match=r"act\.relu_direction_0 has shape"):
        reqnn.revise(Widths(), POINTS, rules="vector-neurons")


def test_outside_of_a_network():
    context = reqnn.tensor.context.Context(reqnn.get_rules("vector-neurons"))
    x = reqnn.QuaternionTensor(torch.randn(3, 2, 4), context=context)
    with pytest.raises(NoRuleError, match="no module to hold them"):
        F.relu(x)


def test_code_that_fixes_the_width():
    class Behind(nn.Module):
        """A layer of the real part that takes 8 numbers by hand."""

        def __init__(self):
            super().__init__()
            self.conv, self.gate, self.head = nn.Conv1d(3, 8, 1), nn.Identity(), nn.Linear(8, 5)
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, points):
            x = self.gate(F.relu(self.conv(points.transpose(1, 2))).amax(-1))
            return self.head(x * self.scale)

    with pytest.raises(NoRuleError, match="readings=1"):
        reqnn.revise(Behind(), POINTS, to_real="gate", rules="vector-neurons")
    one = reqnn.get_rules("vector-neurons").with_options(readings=1)
    assert reqnn.revise(Behind(), POINTS, to_real="gate", rules=one).eval()(POINTS).shape == (4, 5)


def test_two_threads_at_once():
    nets = [revised(), reqnn.revise(Looping(), POINTS, rules="vector-neurons")]
    nets = [net.eval() for net in nets]
    expected = [net(POINTS) for net in nets]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: nets[i % 2](POINTS), range(16)))
    assert all(torch.equal(out, expected[i % 2]) for i, out in enumerate(found))


def test_a_pass_that_fails_leaves_no_module_running():
    net = revised().eval()
    features = net.features(POINTS, at="conv3")
    expected = net.block(features)
    handle = net.tail[1].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        net(POINTS)
    handle.remove()
    assert owner_of_call() is None
    assert torch.equal(net.block(features).components, expected.components)  # a submodule by itself finds what it has learned
    with pytest.raises(RuntimeError):
        net.block(net.features(POINTS, at="conv1"))
    assert owner_of_call() is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_export(dynamic):
    net = revised().double().eval()
    shapes = {"args": ({0: torch.export.Dim("clouds", min=2)},)} if dynamic else None
    program = torch.export.export(net, (POINTS.double(),), dynamic_shapes=shapes)
    assert any("relu_direction_1" in name for name in program.state_dict)
    given = POINTS.double()[:3] if dynamic else POINTS.double()
    torch.testing.assert_close(program.module()(given), net(given))


def test_compile():
    net = revised().double().eval()
    torch._dynamo.reset()
    fast = torch.compile(copy.deepcopy(net), backend="aot_eager")
    torch.testing.assert_close(fast(POINTS.double()), net(POINTS.double()))
    for module in (net, fast):
        module(POINTS.double()).square().sum().backward()
    for (name, a), b in zip(net.named_parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)


def test_a_rule_of_ones_own():
    """The example of docs/add_a_rule.md."""
    mine = reqnn.rules.RuleSet("mine", parent=reqnn.get_rules("vector-neurons"))

    @mine.rule("relu", row="ReLU")
    def gate(x):
        learned = x.context.learned("gate")
        weight = learned.parameter("weight", (x.shape[1],), x.components, torch.nn.init.ones_)
        return x * torch.sigmoid(x.norm_of_elements() * weight[:, None])

    net = reqnn.revise(Net(), POINTS, rules=mine).double().eval()
    assert net.report.learned["gate_weight_1"] == (8,)
    rotation = reqnn.quaternion.random_matrix().double()
    torch.testing.assert_close(net(POINTS.double() @ rotation.T), net(POINTS.double()), rtol=1e-9, atol=1e-9)
