"""Networks that cannot be revised: each error names the operation, the layer, the line and the ways out.

And rules of one's own, as docs/add_a_rule.md shows them.
"""

import contextlib
import inspect
import pickle
import re

import pytest
import torch
from torch import nn

import reqnn
from experiments.networks.pointnet import TransformedPointNet
from networks import kinds, refused, turn
from networks.checks import ROTATIONS, error
from networks.coordinates import WeightedConvolution
from reqnn import NoRuleError
from reqnn.errors import ReqnnError

REFUSED = [
    (refused.AddsANumber, "add", "", r"the number 1\.0 is added to quaternion features", "local"),
    (refused.AddsToCoordinates, "sub", "", r"the number -?0\.5 is added", None),
    (refused.Height, "__getitem__", "", "cuts a vector apart.*single coordinate", None),
    (refused.OneCoordinate, "__getitem__", "", "cuts a vector apart.*single coordinate", None),
    (refused.SineEncoding, "sin", "", "sines and cosines of coordinates depend on the orientation", None),
    (refused.Covariance, "matmul", "", "covariance matrix.* rotates with the cloud", None),
    (refused.PositionTable, "add", "", r"real tensor of shape \(24, 8\) is added", "local"),
    (refused.SingularValues, "linalg_svd", "", "no rule is registered", None),
    (refused.SumsCoordinates, "sum", "", "mix the coordinates x, y, z", None),
    (refused.CutsVectors, "__getitem__", "", "cuts a vector apart", None),
    (refused.ToNumpy, "numpy", "", "", "local"),
    (refused.StaleAlias, "view", "", r"in place|inplace=False", "local"),
]


EXTENSIONS = [
    (refused.JoinsDistances, "cat", "", r"real tensor of shape \(4, 24, 1\).*scalars=", None),
    (refused.SoftmaxOfFeatures, "softmax", "", "strict=True refuses", "local"),
    (refused.Tanh, "tanh", "", "strict=True refuses", "local"),
    (refused.TanhInside, "tanh", "block.1", "strict=True refuses", "block.0"),
    (refused.GatedFeatures, "sigmoid", "stages.0", "strict=True refuses", "stages.0.linear"),
]
"""Rules beyond the paper: strict=True refuses them."""


def marked_line(cls):
    """Return the file, line number and code of the line that is marked in a network."""
    owner = refused.Gate if cls is refused.GatedFeatures else cls
    lines, start = inspect.getsourcelines(owner)
    number, code = next((start + i, line.strip()) for i, line in enumerate(lines) if "# refused" in line)
    return f"{inspect.getsourcefile(owner)}:{number}: {code}"


def refusal(model, points, **options):
    """Return the error that `revise` raises."""
    with pytest.raises(NoRuleError) as caught:
        reqnn.revise(model, points, **options)
    return caught.value


@pytest.mark.parametrize(
    ("cls", "operation", "layer", "reason", "source"), [*REFUSED, *EXTENSIONS], ids=lambda cls: getattr(cls, "__name__", "")
)
def test_refused(cls, operation, layer, reason, source):
    points = torch.randn(4, 24, 6 if cls is refused.CutsVectors else 3)
    model = cls()
    model(points.clone())  # the ordinary network runs
    given = refusal(model, points, strict=cls in [row[0] for row in EXTENSIONS])
    assert given.operation.strip("_").removeprefix("i").removeprefix("linalg_") == operation.strip("_").removeprefix("linalg_")
    assert (given.layer or "") == layer
    assert given.location == marked_line(cls)
    assert re.search(reason, given.reason)
    assert given.source == source
    message = str(given)
    assert f"no rule for {given.operation}" in message
    assert marked_line(cls) in message
    assert (f"in layer '{layer}'" if layer else "in the model's own forward") in message
    assert given.reason in message
    for way_out in ("to_real=", "remove=", "coordinates=", "replace=", "reqnn.rule"):
        assert way_out in message
    if source:
        assert f"to_real='{source}'" in message


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize(("cls", "operation", "source"), [(row[0], row[1], row[4]) for row in EXTENSIONS])
def test_extensions(cls, operation, source, rules):
    torch.manual_seed(0)
    net = reqnn.revise(cls(), torch.randn(4, 24, 3), rules=rules).double().eval()
    points = torch.randn(4, 24, 3, dtype=torch.float64)
    assert error(net(points), net(turn(points, 2, ROTATIONS[0]).flip(1))) <= 1e-9
    assert error(net(points), net(points.flip(0))) > 1e-3
    assert operation in net.report.extensions
    if source is not None:
        assert source in net.report.to_real
        assert any(f"{source} (into {operation})" in note for note in net.report.notes)


@pytest.mark.parametrize("cls", [kinds.WithMapped, kinds.WithScripted])
def test_code_that_asks_for_no_rule(cls):
    given = refusal(cls(), torch.randn(4, 24, 3))
    assert "plain Python function" in given.reason
    assert "kinds.py" in given.location


class Fails(nn.Module):
    """Torch itself fails where the numbers are quaternions."""

    def __init__(self, how):
        super().__init__()
        self.local, self.head, self.how = nn.Linear(3, 8), nn.Linear(8, 5), how

    def forward(self, x):
        x = self.local(x)
        if self.how == "type":
            x = torch.stack([x, x], dim=0, no_such=1) if type(x) is not torch.Tensor else x
        if self.how == "index":
            x = x.sum(5) if type(x) is not torch.Tensor else x
        if self.how == "value":
            x = x.split([1, 2], -1)[0] if type(x) is not torch.Tensor else x
        return self.head(x.amax(1))


@pytest.mark.parametrize(("how", "operation"), [("index", "sum"), ("value", "split")])
def test_errors_of_the_engine_are_refusals(how, operation):
    given = refusal(Fails(how), torch.randn(4, 24, 3))
    assert (given.operation, given.layer or "") == (operation, "")
    assert "fails on quaternion features" in given.reason
    assert "test_refusals.py" in given.location


def test_transformer_without_remove():
    given = refusal(TransformedPointNet(), torch.randn(4, 3, 24))
    assert given.operation == "bmm"
    assert "spatial transformer (STN), drop that submodule with remove=" in given.reason
    assert "pointnet.py" in given.location
    assert "torch.bmm(x.transpose(2, 1), trans)" in given.location


def test_feature_transformer_is_real_and_may_stay():
    """Its matrix comes from invariants: it multiplies quaternion features as any real matrix does."""
    net = reqnn.revise(TransformedPointNet(), torch.randn(4, 3, 24), remove=("stn",)).double().eval()
    points = torch.randn(4, 3, 24, dtype=torch.float64)
    assert net.fstn.fc.weight.shape == (64, 16)
    assert error(net(points)[0], net(turn(points, 1, ROTATIONS[0]))[0]) <= 1e-9


def test_weightnet_without_coordinates_gives_inner_products():
    """Quaternion weights times quaternion features are invariants: another network, but a sound one."""
    net = reqnn.revise(WeightedConvolution(), torch.randn(4, 3, 24)).double().eval()
    points = torch.randn(4, 3, 24, dtype=torch.float64)
    assert "3D coordinates weighting" not in net.report.operations
    assert error(net(points), net(turn(points, 1, ROTATIONS[0]))) <= 1e-9


WAYS_OUT = [
    (refused.TanhInside, {"to_real": "block.0"}),
    (refused.TanhInside, {"remove": ("block.1",)}),
    (refused.TanhInside, {"remove": ("block",)}),
    (refused.GatedFeatures, {"to_real": "stages.0.linear"}),
    (refused.GatedFeatures, {"remove": ("stages.0",)}),
    (refused.Tanh, {"coordinates": ("local",)}),
]


@pytest.mark.parametrize(("cls", "options"), WAYS_OUT, ids=[f"{cls.__name__}-{next(iter(given))}" for cls, given in WAYS_OUT])
def test_ways_out_work(cls, options):
    net = reqnn.revise(cls(), torch.randn(4, 24, 3), **options).double().eval()
    points = torch.randn(4, 24, 3, dtype=torch.float64)
    assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= 1e-9
    assert error(net(points), net(points.flip(0))) > 1e-3


def test_the_way_out_that_the_message_names_works_for_a_layer_on_coordinates():
    given = refusal(refused.SoftmaxOfFeatures(), torch.randn(4, 24, 3), strict=True)
    assert "to_real='local'" in str(given)
    net = reqnn.revise(refused.SoftmaxOfFeatures(), torch.randn(4, 24, 3), to_real="local")
    assert net(torch.randn(4, 24, 3)).shape == (4, 5)


def test_replacing_a_function_is_a_way_out():
    given = {"scale": lambda x: x.norm(dim=-1, keepdim=True)}
    with pytest.raises(NoRuleError, match="single coordinate"):
        reqnn.revise(refused.Scaled(), torch.randn(4, 24, 3))
    net = reqnn.revise(refused.Scaled(), torch.randn(4, 24, 3), replace=given).double().eval()
    points = torch.randn(4, 24, 3, dtype=torch.float64)
    assert net.report.replaced == ["scale"]
    assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= 1e-9


def test_a_refusal_leaves_the_network_as_it_was():
    model = refused.ToNumpy()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    refusal(model, torch.randn(4, 24, 3))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not model.local._forward_pre_hooks
    model(torch.randn(4, 24, 3))


def test_refusals_are_errors_of_this_package_and_can_be_pickled():
    given = refusal(refused.ToNumpy(), torch.randn(4, 24, 3))
    assert isinstance(given, ReqnnError)
    twin = pickle.loads(pickle.dumps(given))
    assert (str(twin), twin.layer, twin.location) == (str(given), given.layer, given.location)


def test_new_layouts_after_the_dry_run_are_refused():
    net = reqnn.revise(refused.GatedFeatures(), torch.randn(4, 24, 3), remove=("stages.0",))
    with pytest.raises(reqnn.InputError, match="axis 2 must hold the 3 channels"):
        net(torch.randn(4, 24, 6))


# -- rules of one's own, as docs/add_a_rule.md has them ---------------------------------------------------------------------


@contextlib.contextmanager
def registration():
    """Undo what is registered inside."""
    paper = reqnn.get_rules("paper")
    functions, modules = dict(paper.functions), dict(paper.modules)
    try:
        yield paper
    finally:
        for registered, before in ((paper.functions, functions), (paper.modules, modules)):
            registered.clear()
            registered.update(before)


def register_tanh():
    @reqnn.rule(torch.tanh)
    def squash(x):
        norm = x.norm_of_elements()
        return x * (torch.tanh(norm) / norm.clamp(min=1e-12))


def test_a_rule_for_a_function():
    points = torch.randn(4, 24, 3, dtype=torch.float64)
    with registration():
        register_tanh()
        for cls in (refused.Tanh, refused.TanhInside):
            net = reqnn.revise(cls(), points.float()).double().eval()
            assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= 1e-9
            assert error(net(points), net(points.flip(0))) > 1e-3
            assert "tanh" in net.report.extensions
        with pytest.raises(NoRuleError, match="strict=True refuses"):
            reqnn.revise(refused.Tanh(), points.float(), strict=True)
    refusal(refused.Tanh(), points.float(), strict=True)


def test_a_rule_serves_the_method_and_the_in_place_form():
    class InPlace(refused.Base):
        def forward(self, x):
            x = self.local(x)
            x.tanh_()
            return self.pooled(x.tanh())

    points = torch.randn(4, 24, 3, dtype=torch.float64)
    with registration():
        register_tanh()
        net = reqnn.revise(InPlace(), points.float()).double().eval()
        assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= 1e-9


class Squash(nn.Module):
    """x·tanh(x·gain), which no rule covers."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.tanh(x * self.gain)


class QuaternionSquash(nn.Module):
    """f·tanh(‖f‖·gain)."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.tanh(x.norm_of_elements() * self.gain)


class Squashed(refused.Base):
    def setup(self):
        self.inner = nn.Sequential(Squash(8), nn.Linear(8, 8))
        self.real = Squash(5)

    def forward(self, x):
        return self.real(self.pooled(self.inner(self.local(x))))


def test_a_rule_for_a_module():
    points = torch.randn(4, 24, 3, dtype=torch.float64)
    refusal(Squashed(), points.float(), strict=True)
    with registration():

        @reqnn.module_rule(Squash)
        def build(module, x):
            assert isinstance(x, reqnn.QuaternionTensor)
            return QuaternionSquash(x.shape[-1])

        model = Squashed()
        net = reqnn.revise(model, points.float()).double().eval()
        assert isinstance(net.inner[0], QuaternionSquash)
        assert type(net.real).__name__ == "Squash"  # it meets real numbers only
        assert isinstance(model.inner[0], Squash)
        assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= 1e-9
        assert error(net(points), net(points.flip(0))) > 1e-3
        net(points).sum().backward()
        assert net.inner[0].gain.grad.abs().max() > 0


def test_a_module_rule_covers_subclasses_and_the_nearest_one_wins():
    class Child(Squash):
        pass

    with registration() as paper:
        reqnn.module_rule(Squash)(lambda module, x: QuaternionSquash(8))
        assert paper.find_module(Child) is paper.modules[Squash]
        reqnn.module_rule(Child)(lambda module, x: nn.Identity())
        assert paper.find_module(Child) is paper.modules[Child]
    assert paper.find_module(Child) is None


def test_rules_in_a_set_of_ones_own():
    """A set extends another; the paper's stays as it is."""
    paper = reqnn.get_rules("paper")
    mine = reqnn.rules.RuleSet("mine", parent=paper)

    @mine.rule("tanh", row="user", extension=True)
    def squash(x):
        return x * torch.tanh(x.norm_of_elements())

    points = torch.randn(4, 24, 3, dtype=torch.float64)
    net = reqnn.revise(refused.Tanh(), points.float(), rules=mine).double().eval()
    assert error(net(points), net(turn(points, 2, ROTATIONS[0]))) <= 1e-9
    assert paper.find("tanh").row == "Gate"


class HandShapedGain(torch.nn.Module):
    """A gain for each coordinate, reshaped to sizes written out by hand."""

    def __init__(self):
        super().__init__()
        self.gain, self.conv = torch.nn.Parameter(torch.ones(3)), torch.nn.Conv1d(3, 8, 1)

    def forward(self, x):
        return self.conv(x * self.gain.view(1, 3, 1)).max(-1)[0]


def test_a_parameter_shaped_by_hand_is_averaged():
    net = reqnn.revise(HandShapedGain(), torch.randn(2, 3, 20), init="copy").eval()
    assert net.gain.shape == (3,)


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("cls", [refused.ClassToken, refused.Compares])
def test_what_was_refused_once(cls, rules):
    torch.manual_seed(0)
    net, points = (
        reqnn.revise(cls(), torch.randn(4, 24, 3), rules=rules, check=False).double().eval(),
        torch.randn(4, 24, 3).double(),
    )
    assert error(net(points), net(turn(points, 2, ROTATIONS[0]).flip(1))) <= 1e-9


def test_half_of_the_points_written_into_zeros():
    with pytest.raises(reqnn.NoRuleError, match="order of the points"):
        reqnn.revise(refused.WritesIntoZeros(), torch.randn(4, 24, 3))


def test_what_fails_on_points_inside_the_network_names_the_line():
    class Sampled(torch.nn.Module):
        def forward(self, xyz):
            return xyz[:, reqnn.points.farthest_point_sample(xyz, 40)[0]]

        def __call__(self, *args):
            return torch.zeros(2, 4) if not isinstance(args[0], reqnn.tensor.QuaternionTensor) else super().__call__(*args)

    with pytest.raises(NoRuleError, match=r"n = 40 of 24 points") as caught:
        reqnn.revise(Sampled(), torch.randn(2, 24, 3))
    assert "reqnn.points.farthest_point_sample(xyz, 40)" in caught.value.location
