"""`rules="frames"`: any network, also a black box, made invariant from outside."""

import copy
import pickle

import pytest
import torch
from torch import nn

import reqnn
from experiments.networks import folding
from networks import CASES, order_dependent, silent, turn
from networks.checks import ORDER, ROTATIONS, calibrate, error, example, outputs
from reqnn import InputError

BY_NAME = {case.name: case for case in CASES}
POINTS = torch.randn(4, 3, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def in_frames(model, points=POINTS, **options):
    """The network in frames with its own weights, in float64, calibrated."""
    torch.manual_seed(0)
    return calibrate(reqnn.revise(model, points.float(), rules="frames", init="copy", **options).double(), (points,))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_every_network_is_invariant_in_frames(case):
    stated = {"outputs": ("vectors",)} if case.name == "latent_autoencoder" else {}  # (B, 3, N) → (B, N, 3) leaves it open
    net = reqnn.revise(case.model(), example(case), rules="frames", scalars=case.scalars, init="copy", **stated).double()
    inputs = case.inputs()
    calibrate(net, inputs)
    for i, (a, b) in enumerate(zip(outputs(net, inputs), outputs(net, case.rotated(inputs, ROTATIONS[0])), strict=True)):
        expected = turn(a, case.vectors[i], ROTATIONS[0]) if i in case.vectors and net.rotated[i] is not None else a
        assert error(expected, b) <= 1e-8


def test_the_original_is_kept_as_it_is_and_averaged_over_four_frames():
    model = calibrate(order_dependent.Harmless().double(), (POINTS,))
    net = in_frames(model)
    net.load_state_dict({f"model.{name}": value for name, value in model.state_dict().items()})
    frames = reqnn.points.right_handed_frames(POINTS.mT)
    expected = torch.stack([model((POINTS.mT @ frame).mT) for frame in frames.unbind(1)]).mean(0)
    assert error(expected, net(POINTS)) < 1e-12
    assert sorted(net.report.copied) == sorted(name for name, _ in model.named_parameters())
    assert "not equivariant" in str(net.report)
    fresh = reqnn.revise(model.float(), POINTS.float(), rules="frames")
    assert not torch.equal(fresh.model.first.weight, model.first.weight)
    assert fresh.report.copied == []


def test_training_draws_a_frame_for_each_cloud():
    net = in_frames(order_dependent.Harmless())
    torch.manual_seed(0)
    drawn = [net._frames({0: POINTS}) for net in [net.train()] for _ in range(8)]
    assert all(frames.shape == (4, 1, 3, 3) for frames in drawn)
    assert len({tuple(frames[0].flatten().tolist()) for frames in drawn}) > 1
    net(POINTS).sum().backward()
    assert all(p.grad is not None for name, p in net.named_parameters() if "flat" not in name)


def test_coordinates_among_the_outputs_rotate():
    net = in_frames(silent.Coded())
    (code, cloud), (also_code, rotated) = net(POINTS), net(turn(POINTS, 1, ROTATIONS[0]))
    assert error(code, also_code) < 1e-9
    assert error(turn(cloud, 1, ROTATIONS[0]), rotated) < 1e-9
    real = in_frames(silent.Coded(), outputs=("real", "real"))
    assert error(real(POINTS)[1], real(turn(POINTS, 1, ROTATIONS[0]))[1]) < 1e-9


def test_folding_a_grid():
    torch.manual_seed(0)
    net = in_frames(folding.FoldingNet(), torch.randn(4, 3, 25, dtype=torch.float64))
    assert error(turn(net(POINTS), 1, ROTATIONS[0]), net(turn(POINTS, 1, ROTATIONS[0]))) < 1e-9


def test_black_boxes():
    model = nn.Sequential(nn.Conv1d(3, 8, 1), nn.Tanh(), nn.Conv1d(8, 5, 1), nn.AdaptiveMaxPool1d(1), nn.Flatten())
    traced = torch.jit.trace(model.float(), POINTS.float())
    for box in (traced, lambda x: traced(x), torch.nn.DataParallel(copy.deepcopy(model))):
        net = reqnn.revise(box, POINTS.float(), rules="frames", init="copy").eval()
        assert error(net(POINTS.float()), net(turn(POINTS, 1, ROTATIONS[0]).float())) < 1e-3
        assert reqnn.revise(box, POINTS.float(), rules="frames").eval()(POINTS.float()).shape == (4, 5)


class Packed(nn.Module):
    """Points of all clouds in one list, with the cloud of each point, or where each cloud ends."""

    def __init__(self, ends=False):
        super().__init__()
        self.local, self.out, self.ends = nn.Linear(3, 8), nn.Linear(8, 5), ends

    def forward(self, x, batch):
        x = torch.relu(self.local(x)).exp()
        if self.ends:
            return self.out(torch.stack([part.mean(0) for part in x.tensor_split(batch.tolist()[:-1])]))
        return self.out(torch.zeros(int(batch.max()) + 1, 8, dtype=x.dtype).index_add(0, batch, x))


@pytest.mark.parametrize("ends", [False, True])
def test_clouds_in_one_list_have_frames_of_their_own(ends):
    torch.manual_seed(0)
    points, members = torch.randn(30, 3, dtype=torch.float64), torch.arange(3).repeat_interleave(10)
    extra = torch.tensor([10, 20, 30]) if ends else members
    net = reqnn.revise(Packed(ends), (points.float(), extra), rules="frames").double().eval()
    turned = torch.stack([points[i] @ ROTATIONS[int(m)].T for i, m in enumerate(members)])
    assert error(net(points, extra), net(turned, extra)) < 1e-9


def test_equal_variances_are_reported():
    cross = torch.cat([torch.eye(3), -torch.eye(3)])[None].mT.contiguous()
    net = reqnn.revise(order_dependent.ShallowPointNet(), cross, rules="frames", vector_axis=1)
    assert any("1 clouds of the example have two equal variances" in note for note in net.report.notes)


def test_options_that_have_no_meaning():
    with pytest.raises(InputError, match=r"remove=\('norm',\) has no meaning with rules='frames'"):
        reqnn.revise(order_dependent.Harmless(), POINTS.float(), rules="frames", remove=("norm",))
    with pytest.raises(InputError, match=r"takes an nn\.Module, with rules='frames' also a function"):
        reqnn.revise("PointNet", POINTS.float(), rules="frames")
    with pytest.raises(InputError, match="not equivariant"):
        in_frames(order_dependent.Harmless()).features(POINTS)


def test_the_zoo_in_frames_passes_an_audit():
    net = reqnn.create_model("dgcnn", equivariant=True, num_classes=5, rules="frames", init="copy", k=5, width=0.125)
    report = reqnn.audit(net, torch.randn(4, 40, 3), rotations=4, permutations=2)
    assert report.rotation_error < 1e-8
    assert report.permutation_error < 1e-8
    twin = pickle.loads(pickle.dumps(net.eval()))
    points = torch.randn(2, 40, 3)
    assert torch.equal(twin(points), net(points))


def test_the_order_of_the_points_matters_as_in_the_original():
    net = in_frames(order_dependent.FirstPoints())
    assert error(net(POINTS), net(POINTS[:, :, ORDER])) > 1e-3


@pytest.mark.parametrize("rules", ["full", "frames"])
def test_outputs_that_may_be_meant_to_rotate_are_named(rules):
    """Three numbers per cloud may be logits, or a direction; the report says how they were taken."""

    class Direction(nn.Module):
        def __init__(self):
            super().__init__()
            self.local, self.head = nn.Linear(3, 16), nn.Linear(16, 3)

        def forward(self, x):
            return self.head(torch.relu(self.local(x)).amax(1))

    points = POINTS.mT.float()
    assert any("outputs= with 'vectors'" in note for note in reqnn.revise(Direction(), points, rules=rules).report.notes)
    stated = reqnn.revise(Direction(), points, rules=rules, outputs=("real",))
    assert not any("'vectors'" in note for note in stated.report.notes)
    assert any("R·A·Rᵀ" in note for note in reqnn.revise(_inertia, points, rules="frames").report.notes)


def _inertia(x):
    return x.mT @ x
