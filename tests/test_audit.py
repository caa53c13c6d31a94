"""The audit passes what keeps the properties, fails what does not, and says what it did."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reqnn.auditing import audit
from reqnn.errors import InputError
from reqnn.models import list_models
from reqnn.models.registry import model_entry
from reqnn.revision import revise
from reqnn.revision.clouds import cube_rotations, dealt_out
from reqnn.zoo import create_model
from surfaces import points_in_balls, surfaces

QUICK = {"rotations": 3, "permutations": 2}
RADIUS, NSAMPLE = (0.5, 0.8), (8, 8)
OPTIONS = {
    "dgcnn": {"k": 8},
    "dgcnn_parts": {"k": 8},
    "kd_network": {"depth": 5},
    "plane_fit": {"k": 12},
    "point2sequence": {"npoint": 16, "nsample": (3, 4, 6, 8)},
    "pointconv": {"npoint": (48, 16), "nsample": NSAMPLE},
    "pointnet2": {"npoint": (48, 16), "radius": RADIUS, "nsample": NSAMPLE},
    "pointnet2_parts": {"npoint": (48, 16), "radius": RADIUS, "nsample": NSAMPLE},
    "pointnet2_msg": {
        "npoint": (48, 16),
        "radius": ((0.3, 0.5, 0.8), (0.5, 0.8, 1.2)),
        "nsample": ((4, 8, 8), (4, 8, 8)),
    },
    "prin": {"bandwidth": 4, "shells": 4},
    "qe_capsule": {"npoint": 8, "neighbours": 10},
    "rscnn": {"npoint": (48, 16), "radius": RADIUS, "nsample": NSAMPLE},
}
INVARIANT = ["qe_capsule"]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(name, equivariant):
    torch.manual_seed(0)
    options = {"width": 0.125} if "width" in model_entry(name).options else {}
    return create_model(name, equivariant=equivariant, num_classes=10, **options, **OPTIONS.get(name, {}))


def train(net, points, steps=3):
    """A few steps of SGD, with dropout and all; running statistics follow at once."""
    torch.manual_seed(1)
    for module in net.modules():
        if hasattr(module, "momentum"):
            module.momentum = 0.8
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    net.train()
    for _ in range(steps):
        cloud = points + 0.02 * torch.randn(points.shape)
        output = net(cloud)
        labels = torch.arange(output.numel() // 10) % 10
        loss = F.mse_loss(output, cloud) if output.shape == cloud.shape else F.cross_entropy(output.flatten(0, -2), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_balls_overflow():
    points = surfaces()
    assert points_in_balls(points, RADIUS[0]) > 1.2 * NSAMPLE[0]


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", list_models(revisable=True))
def test_revised_models_pass(name, trained):
    net, points = small(name, equivariant=True), surfaces()
    if trained:
        train(net, points)
    report = audit(net, points, **QUICK)
    assert report.ok, str(report)
    assert max(report.rotation_error, report.permutation_error, report.batch_error) <= 1e-9
    assert report.spread > 1e-2
    assert bool(report.notes) is not trained  # untrained statistics are set, and that is said
    assert report.rows[-1].name == "(output)"
    assert {row.kind for row in report.rows} >= {"quaternion"}


@pytest.mark.parametrize("name", sorted({*list_models()} - {*INVARIANT}))
def test_original_models_fail(name):
    report = audit(small(name, equivariant=False), surfaces(), **QUICK, modes=("eval",))
    assert not report.ok
    assert report.rotation_error > 1e-2
    first = {"dgcnn": "conv1.0", "pointnet": "conv1", "pointconv": "sa1.weightnet.convs.0", "pointnet2": "sa1.mlps.0.convs.0"}
    assert report.first_rotation_failure == first.get(name, report.first_rotation_failure)
    sampling = ("pointnet2", "pointconv", "kd_network", "point2sequence", "rscnn")
    assert (report.first_permutation_failure is not None) == name.startswith(sampling)


def test_random_clouds_float32_and_repeatable():
    net = small("dgcnn", equivariant=True)
    points = torch.randn(4, 48, 3, generator=torch.Generator().manual_seed(3))
    report = audit(net, points, **QUICK, dtype=torch.float32)
    assert report.ok, str(report)
    assert report.tolerance == 1e-4
    assert report.rotation_error > 1e-8
    assert audit(net, points, **QUICK, dtype=torch.float32).to_json() == report.to_json()


def test_the_network_and_the_random_state_are_left_alone():
    net, points = small("dgcnn", equivariant=True).train(), surfaces(points=64)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    random = torch.get_rng_state()
    before = points.clone()
    audit(net, points, **QUICK)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(points, before)
    assert net.training
    assert all(p.requires_grad and p.dtype == torch.float32 for p in net.parameters())
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())


def test_orders_of_layers():
    rows = {row.name: row for row in audit(small("dgcnn", equivariant=True), surfaces(points=64), **QUICK).rows}
    assert rows["conv1"].order == rows["conv6.0"].order == "permuted"
    assert rows["head.fc1"].order == rows["(output)"].order == "unchanged"
    assert (rows["conv5.0"].kind, rows["conv6.0"].kind) == ("quaternion", "real")


def test_scalars():
    class Coloured(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv1d(9, 16, 1), nn.BatchNorm1d(16)
            self.conv2, self.fc = nn.Conv1d(16, 32, 1), nn.Linear(32, 5)

        def forward(self, x):
            x = F.relu(self.bn1(self.conv1(x)))
            return self.fc(F.relu(self.conv2(x)).max(-1)[0])

    points = torch.randn(4, 9, 50, generator=torch.Generator().manual_seed(0))
    net = revise(Coloured(), points, scalars=3)
    report = audit(net, points, **QUICK)
    assert report.ok, str(report)
    assert not audit(Coloured(), points, **QUICK, scalars=3, vector_axis=1).ok


class Invariant(nn.Module):
    """Written by hand: centred coordinates, mixed; then lengths, attention between the points, and a head."""

    def __init__(self, drop=0.5):
        super().__init__()
        self.centre = nn.Identity()
        self.mix = nn.Linear(1, 8, bias=False)
        self.softmax = nn.Softmax(-1)
        self.fc = nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)
        self.drop = drop

    def forward(self, x):
        x = self.centre(x - x.mean(1, keepdim=True))
        f = self.mix(x.unsqueeze(-1))  # (B, N, 3, 8)
        weights = self.softmax(-(x[:, :, None] - x[:, None]).square().sum(-1))
        lengths = weights @ f.float().square().sum(2)
        lengths = F.dropout(F.relu(self.fc(lengths)), self.drop, self.training)
        lengths = self.fc(lengths)
        bias = torch.zeros(8)
        return self.head((lengths + bias).mean(1))


def test_networks_that_were_not_revised_may_hold():
    report = audit(Invariant(), surfaces(points=40), **QUICK)
    assert report.ok, str(report)
    rows = {row.name: row for row in report.rows}
    assert list(rows) == ["centre", "mix", "softmax", "fc", "fc#2", "head", "(output)"]
    assert all(row.kind == "real" for row in report.rows)
    assert rows["softmax"].order == rows["mix"].order == "permuted"


def test_rounding_is_told_from_breaking():
    """Distances by x² − 2xy + y² lose half the digits: float64 shows 1e-8, where the same in differences shows 1e-15."""

    class Distances(nn.Module):
        def __init__(self, way):
            super().__init__()
            self.way, self.softmax = way, nn.Softmax(-1)

        def forward(self, x):
            return self.softmax(-torch.cdist(x, x, compute_mode=self.way)).square().sum(-1).amax(1, keepdim=True)

    points = surfaces(points=40)
    assert audit(Distances("donot_use_mm_for_euclid_dist"), points, **QUICK).ok
    report = audit(Distances("use_mm_for_euclid_dist"), points, **QUICK)
    assert report.first_rotation_failure == "softmax"
    assert report.rotation_error < 1e-6
    report = audit(Distances("use_mm_for_euclid_dist"), points, **QUICK, dtype=torch.float32)
    assert "audit in float64" in str(report)


def test_coordinates_as_output_turn():
    class Shrink(nn.Module):
        def forward(self, x):
            return x / (1 + x.norm(dim=1, keepdim=True))

    assert audit(Shrink(), surfaces(points=40).transpose(1, 2).contiguous(), **QUICK).ok


def test_a_loop_over_the_clouds():
    class Loop(Invariant):
        def forward(self, x):
            return torch.cat([self.head(self.fc(self.mix(c.square().sum(-1, keepdim=True))).mean(0)[None]) for c in x])

    report = audit(Loop(), surfaces(points=40), **QUICK)
    assert report.ok, str(report)
    assert "fc#4" in [row.name for row in report.rows]


def test_one_cloud_and_no_batch_axis():
    net, cloud = Invariant(), surfaces(batch=1, points=40)
    report = audit(net, cloud, **QUICK)
    assert report.ok
    assert report.settings["clouds"] == 4
    assert "made from" in str(report)

    class Unbatched(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn = nn.Linear(1, 6), nn.BatchNorm1d(6)

        def forward(self, x):
            return self.bn(self.fc(x.square().sum(-1, keepdim=True)).mean(0, keepdim=True))

    report = audit(Unbatched(), cloud[0], **QUICK)
    assert report.ok, str(report)
    assert math.isnan(report.batch_error)
    assert "training mode was left out" in str(report)
    assert report.settings["modes"] == ["eval"]


def test_several_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.head = nn.Linear(3, 6), nn.Linear(6, 2)

        def forward(self, xyz, features):
            x = torch.cat([xyz.square().sum(-1, keepdim=True), features], -1)
            return self.head(F.relu(self.fc(x)).amax(1))

    features = torch.randn(4, 40, 2, generator=torch.Generator().manual_seed(5))
    assert audit(Two(), (surfaces(points=40), features), **QUICK, vector_axis=(2, None)).ok


def test_outputs_that_never_change_are_not_ok():
    class Constant(Invariant):
        def forward(self, x):
            return 1 + 1e-9 * super().forward(x)

    report = audit(Constant(), surfaces(points=40), **QUICK)
    assert max(report.rotation_error, report.permutation_error) <= 1e-9
    assert not report.ok
    assert "of a constant output mean nothing" in str(report)


def test_report_as_text_and_json():
    good = audit(Invariant(), surfaces(points=40), **QUICK)
    assert str(good).splitlines()[-1].startswith("ok:")
    data = json.loads(good.to_json())
    assert data["ok"] is True
    assert data["rows"][-1]["name"] == "(output)"
    assert data["settings"]["rotations"] == QUICK["rotations"]
    assert data["settings"]["versions"]["torch"] == torch.__version__
    bad = audit(small("pointnet", equivariant=False), surfaces(points=40), **QUICK)
    assert "NOT ok: 'conv1' is the first layer that" in str(bad)
    assert json.loads(bad.to_json())["first_rotation_failure"] == "conv1"


def test_cube_rotations():
    cube = cube_rotations()
    assert len({tuple(m.flatten().tolist()) for m in cube}) == 24
    assert torch.equal(cube @ cube.mT, torch.eye(3, dtype=torch.float64).expand(24, 3, 3))
    assert torch.equal(cube[0], torch.eye(3, dtype=torch.float64))
    for clouds, passes in ((1, 24), (4, 6), (5, 5), (30, 1)):
        dealt = torch.stack(dealt_out(cube, clouds))
        assert dealt.shape == (passes, clouds, 3, 3)
        assert torch.equal(dealt.flatten(0, 1)[:24], cube)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (torch.randn(2, 40, 4), {}, "no input has an axis"),
        (torch.full((2, 40, 3), math.nan), {}, "NaN"),
        (torch.zeros(2, 40, 3, dtype=torch.long), {}, "dtype"),
        (torch.randn(0, 40, 3), {}, "empty"),
        (torch.randn(2, 40, 3), {"rotations": 0}, "rotations"),
        (torch.randn(2, 40, 3), {"modes": ("test",)}, "modes"),
        (torch.randn(2, 40, 3), {"modes": "eval"}, "modes"),
        (torch.randn(2, 40, 3), {"dtype": torch.int64}, "dtype"),
        (torch.randn(2, 40, 3), {"tolerance": -1.0}, "tolerance"),
    ],
)
def test_bad_arguments(points, options, message):
    with pytest.raises(InputError, match=message):
        audit(Invariant(), points, **options)


def test_a_network_that_fails_on_the_points():
    with pytest.raises(InputError, match="the network itself fails"):
        audit(nn.Linear(5, 2), torch.randn(2, 40, 3), **QUICK)
    with pytest.raises(InputError, match=r"nn\.Module"):
        audit(torch.relu, torch.randn(2, 40, 3))
    with pytest.raises(InputError, match="revised for"):
        audit(small("pointnet", equivariant=True), torch.randn(2, 3, 40), **QUICK)
