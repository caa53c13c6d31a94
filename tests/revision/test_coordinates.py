"""`coordinates=`: submodules that compute in the cloud's PCA frame, named or found by "auto"."""

import copy
import pickle

import pytest
import torch

import reqnn
from experiments.networks import folding, kernels
from experiments.styles.clouds import surfaces
from networks import in_frames, refused, turn
from networks.checks import ROTATIONS, calibrate, error
from reqnn import InputError, NoRuleError
from reqnn.nn.coordinates import frame_of

POINTS = surfaces(4, 24, dtype=torch.float64)
FIRST = POINTS.transpose(1, 2).contiguous()


def revised(model, points=POINTS, **options):
    """The network with its blocks in frames, in float64, calibrated."""
    torch.manual_seed(0)
    net = reqnn.revise(model, points.float(), **{"coordinates": "auto"} | options)
    return calibrate(net.double(), (points,))


def changes(net, points=POINTS, axis=2):
    """How far outputs are from those of the cloud as it was, and from these rotated."""
    with torch.no_grad():
        before, after = net(points), net(turn(points, axis, ROTATIONS[0]))
    rotated = turn(before, axis, ROTATIONS[0]) if before.dim() == 3 else before
    return error(before, after), error(rotated, after)


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("frame", ["signed", "average"])
@pytest.mark.parametrize("cls", [kernels.KernelPointNet, kernels.DirectionNet, in_frames.WithWaves, in_frames.Nested])
def test_logits_are_invariant(cls, frame, rules):
    torch.manual_seed(0)
    model = cls()
    assert changes(calibrate(copy.deepcopy(model).double(), (POINTS,)))[0] > 1e-3  # the original depends on the orientation
    net = revised(model, rules=reqnn.get_rules(rules).with_options(frame=frame))
    assert changes(net)[0] < 1e-9
    assert error(net(POINTS), net(POINTS.flip(0))) > 1e-3


@pytest.mark.parametrize("frame", ["signed", "average"])
def test_a_folded_cloud_rotates(frame):
    net = revised(folding.FoldingNet(), FIRST, rules=reqnn.get_rules("full").with_options(frame=frame))
    same, rotated = changes(net, FIRST, 1)
    assert rotated < 1e-9
    assert same > 1e-3
    assert net.encoder.forward.rotated == {}  # its code is real
    assert net.decoder.forward.rotated == {0: 1}


def test_the_report_says_so():
    net = revised(folding.FoldingNet(), FIRST)
    assert "PCA frame" in net.report.extensions
    assert {row.layer for row in net.report.rows if row.operation == "PCA frame"} == {"encoder", "decoder"}
    notes = "\n".join(net.report.notes)
    assert "'encoder' runs in the PCA frame of each cloud, an extension found by 'auto' (no rule for matmul)" in notes
    assert "coordinates that 'decoder' returns are rotated back" in notes


def test_weights_by_coordinates_are_no_extension():
    net = reqnn.revise(kernels.SpiderNet(), FIRST.float(), coordinates=("spider1", "spider2"), strict=True)
    assert net.report.extensions == []
    assert net.report.operations.count("3D coordinates weighting") == 1


@pytest.mark.parametrize("options", [{}, {"strict": True, "coordinates": "auto"}])
def test_refused_without_auto_and_by_strict(options):
    with pytest.raises(NoRuleError, match=r"coordinates=\('waves',\), or coordinates='auto'") as caught:
        reqnn.revise(in_frames.WithWaves(), POINTS.float(), **options)
    assert caught.value.layer == "waves"


def test_lines_in_the_models_own_forward_have_no_submodule():
    with pytest.raises(NoRuleError, match="finds no submodule around it") as caught:
        reqnn.revise(refused.SineEncoding(), POINTS.float(), coordinates="auto")
    assert caught.value.operation == "sin"
    with pytest.raises(NoRuleError) as plain:
        reqnn.revise(refused.SineEncoding(), POINTS.float())
    assert "'auto'" not in str(plain.value)  # it would not help


def test_an_outer_block_takes_the_place_of_an_inner_one():
    net = revised(in_frames.Nested())
    assert frame_of(net.waves) is not None
    assert frame_of(net.waves.waves) is None


def test_what_is_added_to_coordinates_is_rotated_back():
    same, rotated = changes(revised(in_frames.Offsets()))
    assert rotated < 1e-9
    assert same > 1e-3


@pytest.mark.parametrize("frame", ["signed", "average"])
def test_points_that_a_block_passes_on_stay_vectors(frame):
    net = revised(in_frames.Sampled(), rules=reqnn.get_rules("paper").with_options(frame=frame))
    assert net.sample.forward.rotated == {0: 2}
    assert changes(net)[1] < 1e-9


def test_the_submodule_that_makes_the_output_has_to_be_named_too():
    with pytest.raises(NoRuleError, match=r"coordinates=\('decoder', …\)"):
        reqnn.revise(folding.FoldingNet(), FIRST.float(), coordinates=("encoder",))
    net = revised(folding.FoldingNet(), FIRST, coordinates=("encoder", "decoder"))
    assert changes(net, FIRST, 1)[1] < 1e-9
    real = revised(folding.FoldingNet(), FIRST, coordinates=("encoder",), outputs="real")
    assert changes(real, FIRST, 1)[0] < 1e-9


def test_networks_without_such_blocks_are_as_without_auto():
    model = refused.GatedFeatures()
    net, plain = (reqnn.revise(model, POINTS.float(), coordinates=given, check=False) for given in ("auto", ()))
    assert str(net.report) == str(plain.report)


def test_copies_and_pickles_keep_their_frames():
    net = revised(kernels.KernelPointNet())
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(POINTS), net(POINTS))
        assert twin.conv1.forward.module is twin.conv1


def test_gradients_reach_every_parameter():
    net = revised(folding.FoldingNet(), FIRST).train()
    net(FIRST).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_frames_are_rules_of_their_own():
    with pytest.raises(InputError, match="coordinates='auto' has no meaning with rules='frames'"):
        reqnn.revise(in_frames.WithWaves(), POINTS.float(), coordinates="auto", rules="frames")
