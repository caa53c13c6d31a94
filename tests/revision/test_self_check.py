"""`revise` tries its result once: outputs that depend on the order of the points, or on nothing, are errors."""

import inspect
import pickle

import pytest
import torch
from torch import nn

import reqnn
from networks import order_dependent as wrong
from networks.classifiers import Functional
from reqnn import NoRuleError, SelfCheckError
from reqnn.kernels import run as kernels
from reqnn.revision.self_check import _refusal

POINTS = torch.randn(4, 3, 24, generator=torch.Generator().manual_seed(0))
WRONG = [
    (wrong.FirstPoints, "__getitem__", ""),
    (wrong.RandomPoints, "__getitem__", ""),
    (wrong.WideKernel, "conv1d", "second"),
    (wrong.Flattened, "linear", "flat"),
    (wrong.StridedPool, "max_pool1d", ""),
    (wrong.Rolled, "roll", ""),
    (wrong.Inside, "__getitem__", "keep"),
]


def marked_line(cls):
    """The file, line number and code of the line that is marked in a network."""
    lines, start = inspect.getsourcelines(cls)
    number, code = next((start + i, line.strip()) for i, line in enumerate(lines) if "# wrong" in line)
    return f"{inspect.getsourcefile(cls)}:{number}: {code}"


@pytest.mark.parametrize(("cls", "operation", "layer"), WRONG, ids=[row[0].__name__ for row in WRONG])
@pytest.mark.parametrize("rules", ["paper", "full"])
def test_networks_that_depend_on_the_order_of_the_points(cls, operation, layer, rules):
    torch.manual_seed(0)
    with pytest.raises(SelfCheckError, match="depend on the order of the points") as caught:
        reqnn.revise(cls(), POINTS, rules=rules, strict=False)
    given = caught.value
    assert isinstance(given, NoRuleError)
    assert (given.layer or "", given.location) == (layer, marked_line(cls))
    for part in (f"first: {operation}", given.location, "farthest_point_sample", "check=False"):
        assert part in str(given)
    twin = pickle.loads(pickle.dumps(given))
    assert (str(twin), twin.layer, twin.location) == (str(given), given.layer, given.location)


def test_the_check_can_be_switched_off_and_strict_does_not_do_so():
    with pytest.raises(SelfCheckError):
        reqnn.revise(wrong.FirstPoints(), POINTS, strict=True)
    assert reqnn.revise(wrong.FirstPoints(), POINTS, check=False)(POINTS).shape == (4, 5)


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_an_order_that_does_not_reach_the_output_is_accepted(rules):
    assert reqnn.revise(wrong.Harmless(), POINTS, rules=rules).report.notes == []


def test_outputs_that_depend_on_no_cloud():
    torch.manual_seed(0)
    unit = POINTS / POINTS.norm(dim=1).amax(-1)[:, None, None]  # as data sets are normalised
    with pytest.raises(SelfCheckError, match=r"takes the farthest point.*rules='full'.*norm layer.*smaller c"):
        reqnn.revise(wrong.ShallowPointNet(), unit)
    assert reqnn.revise(wrong.ShallowPointNet(), unit, rules="full").report.notes == []


@pytest.mark.parametrize("points", [POINTS * 0.3, torch.zeros(2, 3, 24)])
def test_outputs_that_depend_on_the_size_of_the_cloud_only_get_a_note(points):
    torch.manual_seed(0)
    try:
        (note,) = reqnn.revise(wrong.ShallowPointNet(), points).report.notes
    except SelfCheckError as error:
        assert float(points.abs().max()) == 0
        note = str(error)
    assert "does not depend on the cloud" in note
    assert "rules='full'" in note


def test_constants_of_the_original_are_no_failure():
    net = reqnn.revise(wrong.WithTable(), POINTS)
    assert torch.equal(net(POINTS)[1][0], net.table)


def test_a_normalised_network_that_is_constant_before_training():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 5)
    )
    unit = POINTS / POINTS.norm(dim=1).amax(-1)[:, None, None]
    with pytest.warns(UserWarning, match="all clouds of the example"):
        reqnn.revise(model, unit)
    with pytest.warns(UserWarning, match="two clouds of one size"):
        (note,) = reqnn.revise(model, POINTS).report.notes
    assert "does not depend on the cloud" in note


class HardCodedBatch(wrong.Harmless):
    """Takes batches of four clouds."""

    def forward(self, x):
        return super().forward(x.view(4, 3, -1))


class Unbatched(nn.Module):
    """(N, 3)."""

    def __init__(self, count=None):
        super().__init__()
        self.local, self.head, self.count = nn.Linear(6, 12), nn.Linear(12, 5), count

    def forward(self, x):
        x = torch.cat([x, x - x.mean(0, keepdim=True)], -1)
        return self.head(torch.relu(self.local(x))[: self.count].amax(0))


def test_networks_that_take_no_batch_of_three_clouds():
    torch.manual_seed(0)
    assert reqnn.revise(HardCodedBatch(), POINTS).report.notes == []
    assert reqnn.revise(Unbatched(), torch.randn(24, 3)).report.notes == []
    with pytest.raises(SelfCheckError, match="order of the points"):
        reqnn.revise(Unbatched(count=8), torch.randn(24, 3))


def test_the_check_changes_neither_the_network_nor_the_random_state():
    nets = []
    for check in (True, False):
        torch.manual_seed(3)
        nets.append((reqnn.revise(Functional(), POINTS, check=check), torch.rand(1)))
    (first, drawn), (second, also_drawn) = nets
    assert torch.equal(drawn, also_drawn)
    assert first.training
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True))


def test_the_check_is_cheap():
    """Three clouds of a fourth of the points; a benchmark of the time is no test."""
    calls = []

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.local, self.head = nn.Linear(3, 8), nn.Linear(8, 4)

        def forward(self, x):
            calls.append(x.shape[0] * x.shape[1])
            return self.head(torch.relu(self.local(x)).amax(1))

    points = []
    for check in (False, True):
        calls.clear()
        reqnn.revise(Counted(), torch.randn(1, 512, 3), rules="full", check=check)
        points.append(sum(calls))
    assert points[1] - points[0] == 3 * (512 // 4 + 1), points
    assert points[0] >= 2 * 512  # the original, and a dry run that is three times as wide


def test_revise_compiles_no_loops(monkeypatch):
    """Compiling takes longer than the few passes of `revise`."""

    def refuse(*arguments):
        raise AssertionError("a compiled loop ran")

    model, points = reqnn.create_model("dgcnn", width=0.125, k=4), torch.randn(4, 160, 3)
    monkeypatch.setattr(kernels, "run", refuse)
    net = reqnn.revise(model, points)
    with pytest.raises(AssertionError, match="compiled loop"):
        net(points)


def test_an_error_that_may_be_rounding_is_said_to_be():
    assert "may be rounding" in str(_refusal("orientation", 2e-6, None))
    assert "rules='full'" in str(_refusal("orientation", 2e-6, None))
    assert "rounding" not in str(_refusal("orientation", 0.5, None))
