"""What public networks do, each in a few lines: revised and right, or refused."""

import numpy as np
import pytest
import torch

import reqnn
from experiments.styles.clouds import surfaces
from networks import generators, idioms, turn
from networks.checks import ROTATIONS, calibrate, error
from reqnn import NoRuleError

POINTS = surfaces(4, 24, dtype=torch.float64)
FIRST = POINTS.mT.contiguous()
ORDER = torch.randperm(24, generator=torch.Generator().manual_seed(1))
VECTORS = {"outputs": ("vectors",)}
TOLERANCE = 1e-9
RULES = ("paper", "full")


def revised(model, *points, **options):
    """In float64, calibrated."""
    example = tuple(x.float() if x.is_floating_point() else x for x in points)
    return calibrate(reqnn.revise(model, example if len(example) > 1 else example[0], **options).double(), points)


@torch.no_grad()
def errors(net, points, axis):
    """Relative errors under a rotation per cloud and a new order: of numbers, or of coordinates on axis `rotates`."""
    before, turned, moved = net(points), net(turn(points, axis, ROTATIONS[0])), net(points.index_select(3 - axis, ORDER))
    assert error(before, before.flip(0)) > 1e-3
    return before, error(before, turned), error(before, moved)


@pytest.mark.parametrize("rules", ["paper", "full"])
@pytest.mark.parametrize(
    ("model", "points", "options"),
    [
        (idioms.CloudByCloud, POINTS, {"coordinates": "auto"}),
        (idioms.WeightBank, FIRST, {}),
        (idioms.Relations, FIRST, {}),
        (idioms.HeldSampling, POINTS, {}),
        (idioms.Surfaces, POINTS, {"coordinates": "auto"}),
        (generators.WeightNormed, FIRST, {}),
        (generators.Merged, FIRST, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_classifiers(model, points, options, rules):
    torch.manual_seed(0)
    net = revised(model(), points, rules=rules, **options)
    _, rotation, order = errors(net, points, 1 if points is FIRST else 2)
    assert max(rotation, order) < TOLERANCE


@pytest.mark.parametrize(
    ("model", "points", "rules", "options", "axis"),
    [
        (idioms.GatedOffsets, POINTS, "paper", {}, 2),
        (idioms.GatedOffsets, POINTS, "full", {}, 2),
        (idioms.Tree, FIRST, "paper", {}, 1),
        (idioms.Tree, FIRST, "full", {}, 1),
        (idioms.Patches, FIRST, "paper", VECTORS | {"coordinates": ("decoder.0", "decoder.1")}, 2),
        (idioms.Patches, FIRST, "full", VECTORS, 2),
        *((model, FIRST, rules, {}, 1) for model in (generators.Denoiser, generators.Upsampled) for rules in RULES),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_coordinates_rotate(model, points, rules, options, axis):
    torch.manual_seed(0)
    net = revised(model(), points, rules=rules, **options)
    with torch.no_grad():
        before, after = net(points), net(turn(points, 1 if points is FIRST else 2, ROTATIONS[0]))
    assert error(turn(before, axis, ROTATIONS[0]), after) < TOLERANCE
    assert error(before, after) > 1e-3


def test_one_cloud_without_a_batch_axis():
    torch.manual_seed(0)
    cloud = POINTS[0]
    net = revised(idioms.OneCloud(), cloud, coordinates=("conv",))
    assert error(net(cloud), net(cloud @ ROTATIONS[0].mT)) < TOLERANCE
    assert error(net(cloud), net(cloud[ORDER])) < TOLERANCE
    assert error(net(cloud), net(POINTS[1])) > 1e-3


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_clouds_in_one_list_have_frames_of_their_own(rules):
    torch.manual_seed(0)
    points, ends = POINTS.reshape(-1, 3), torch.tensor([24, 48, 72, 96], dtype=torch.int32)
    net = revised(idioms.Packed(), points, ends, rules=rules, coordinates=("local",))
    turned = torch.cat([cloud @ rotation.T for cloud, rotation in zip(POINTS, ROTATIONS[[0, 1, 2, 0]], strict=True)])
    assert error(net(points, ends), net(turned, ends)) < TOLERANCE
    assert error(net(points, ends), net(points.flip(0), ends).flip(0)) < TOLERANCE
    with pytest.raises(NoRuleError, match="192 rows of coordinates from a list of 96 points in several clouds"):
        reqnn.revise(idioms.Packed(pairs=True), (points.float(), ends), rules=rules, coordinates=("local",))


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
def test_running_sums_along_the_points_are_refused(rules):
    with pytest.raises(NoRuleError, match="running sums along the 24 points depend on their order"):
        reqnn.revise(idioms.RunningSums(), FIRST.float(), rules=rules, check=False)


def test_outputs_that_are_said_to_be_vectors_never_come_out_real():
    with pytest.raises(NoRuleError, match=r"an output is to be coordinates.*coordinates="):
        reqnn.revise(idioms.Patches(), FIRST.float(), coordinates="auto", **VECTORS)


@pytest.mark.parametrize("use", [lambda x: x, lambda x: x + 1, lambda x: (x * 2).sum()])
def test_of_a_single_coordinate_only_the_shape_may_be_used(use):
    class Height(torch.nn.Module):
        def forward(self, xyz):
            height = xyz[:, :, 2:]
            assert height.shape == (4, 24, 1)
            assert torch.equal(torch.zeros_like(height), torch.zeros(4, 24, 1))
            return use(height)

    with pytest.raises(NoRuleError, match=r"no rule for __getitem__[\s\S]*xyz\[:, :, 2:\][\s\S]*cuts a vector apart"):
        reqnn.revise(Height(), POINTS.float())


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_random_numbers_of_numpy_are_the_same_for_each_cloud_of_the_check(rules):
    """Each cloud of a batch gets a mask of its own; the caller's generator is left as it is."""
    torch.manual_seed(0)
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    net = revised(idioms.Masked(), POINTS, rules=rules)
    assert np.random.get_state(legacy=False)["state"]["pos"] != before["pos"]  # noqa: NPY002 - by the network itself

    def loss(points):
        np.random.seed(0)  # noqa: NPY002
        return net(points)

    assert error(loss(POINTS), loss(turn(POINTS, 2, ROTATIONS[0]))) < TOLERANCE
    assert error(loss(POINTS), loss(POINTS[:, ORDER])) < TOLERANCE
    assert error(loss(POINTS), loss(POINTS.roll(1, 0) * 1.1)) > 1e-3


@pytest.mark.parametrize("rules", [*RULES, "frames"])
def test_a_network_that_keeps_what_it_computed(rules):
    torch.manual_seed(0)
    model = generators.Keeping()
    model(FIRST.float())["coarse"].sum().backward()
    net = reqnn.revise(model, FIRST.float(), rules=rules, outputs=("vectors",))
    net(FIRST.float())["coarse"].square().sum().backward()
    assert reqnn.audit(net, FIRST.float(), rotations=2).ok
    before, after = net.double().eval()(FIRST)["coarse"], net(turn(FIRST, 1, ROTATIONS[0]))["coarse"]
    assert error(turn(before, 2, ROTATIONS[0]), after) < TOLERANCE


def test_what_a_network_does_in_training_only_is_tried():
    torch.manual_seed(0)
    with pytest.raises(NoRuleError, match=r"outputs=\('real'"):
        reqnn.revise(generators.Variational(), FIRST.float())
    with pytest.raises(NoRuleError, match="no rule for add"):
        reqnn.revise(generators.Variational(), FIRST[:1].float())
    net = reqnn.revise(generators.Variational(), FIRST.float(), rules="full").train()
    for output in net(FIRST.float()):
        output.sum().backward(retain_graph=True)


def test_noise_is_no_answer():
    with pytest.raises(reqnn.SelfCheckError, match="first: randn_like"):
        reqnn.revise(generators.Denoiser(always=True), FIRST.float())


@pytest.mark.parametrize("rules", RULES)
def test_a_loss_between_clouds(rules):
    torch.manual_seed(0)
    net = revised(generators.LossInside(), POINTS, POINTS.flip(0), rules=rules)
    rotated = turn(POINTS, 2, ROTATIONS[0])
    (loss, made), (other, moved) = net(POINTS, POINTS.flip(0)), net(rotated, rotated.flip(0))
    assert error(loss, other) < TOLERANCE
    assert error(turn(made, 2, ROTATIONS[0]), moved) < TOLERANCE
