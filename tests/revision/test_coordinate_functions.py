"""Functions of a network's own on real coordinates: those that give invariants or vectors, and those in the PCA frame."""

import copy
import pickle

import pytest
import torch

import reqnn
from networks import Case, geometry
from networks.checks import ORDER, ROTATIONS, calibrate, error, example, outputs, spread
from reqnn.errors import NoRuleError, SelfCheckError
from reqnn.revision.clouds import Clouds
from reqnn.revision.inputs import read_inputs

R = ROTATIONS[0]
TWO = {"axes": (2, 2), "channels": (3, 3)}
BY_ITSELF = [
    Case("angles", geometry.PointPairs, **TWO),
    Case("triangles", geometry.Triangles, (2,)),
    Case("tokens", geometry.SelectedTokens, (2,)),
    Case("without_centre", geometry.WithoutCentre, (2,)),
]


def moved(case):
    inputs = case.inputs()
    return inputs, case.reordered(case.rotated(inputs, R), ORDER)


@pytest.mark.parametrize("rules", ["paper", "full"])
@pytest.mark.parametrize("case", BY_ITSELF, ids=lambda case: case.name)
def test_rotated_and_reordered(case, rules):
    inputs, others = moved(case)
    net = calibrate(reqnn.revise(case.model(), example(case), rules=rules).double(), inputs)
    (usual,), (rotated,) = outputs(net, inputs), outputs(net, others)
    assert error(usual, rotated) < 1e-9
    assert spread(usual) > 1e-4
    model = calibrate(case.model().double(), inputs)
    (usual,), (rotated,) = outputs(model, inputs), outputs(model, others)
    assert error(usual, rotated) > 1e-3


@pytest.mark.parametrize("case", BY_ITSELF[:3], ids=lambda case: case.name)
def test_an_extension(case):
    rows = reqnn.revise(case.model(), example(case), check=False).report.rows
    assert any(row.row in ("Function of coordinates", "Vectors as features") and row.extension for row in rows)
    with pytest.raises(NoRuleError):
        reqnn.revise(case.model(), example(case), strict=True, check=False)


@pytest.mark.parametrize("function", ["lean", "largest"])
def test_a_number_that_depends_on_the_orientation_is_refused(function):
    case = Case(function, lambda: geometry.Reads(function), (2,))
    with pytest.raises(NoRuleError, match="cuts a vector apart") as caught:
        reqnn.revise(case.model(), example(case))
    assert not isinstance(caught.value, SelfCheckError)
    assert "the function around it compute in the PCA frame (coordinates='auto')" in str(caught.value)
    inputs, others = moved(case)
    net = calibrate(reqnn.revise(case.model(), example(case), coordinates="auto").double(), inputs)
    assert error(outputs(net, inputs)[0], outputs(net, others)[0]) < 1e-9
    assert any(f"'{function}()' runs in the PCA frame" in note for note in net.report.notes)


def test_copied_and_pickled():
    case = BY_ITSELF[0]
    net = reqnn.revise(case.model(), example(case)).eval()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(net(*example(case)), twin(*example(case)))


def test_trains():
    case = BY_ITSELF[1]
    net = reqnn.revise(case.model(), example(case), rules="full").train()
    net(*case.inputs(dtype=torch.float32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_the_original_keeps_its_functions():
    before = vars(geometry)["angle"]
    case = BY_ITSELF[0]
    reqnn.revise(case.model(), example(case))
    assert vars(geometry)["angle"] is before


REGISTRATION = [
    (Case("pose_steps", geometry.PoseSteps, **TWO), ("vectors", "real"), "turned()"),
    (Case("mixtures", geometry.Mixtures, **TWO), ("matrices",), "fit()"),
    (Case("alignment", geometry.Alignment, **TWO), ("matrices", "vectors"), "'motion'"),
]


def homogeneous(case):
    """Rotations of each output, as a pair of matrices left and right."""
    whole = torch.eye(4, dtype=torch.float64)
    whole[:3, :3] = R
    return {"mixtures": (whole, whole.mT), "alignment": (R, R.mT), "pose_steps": (None, R.mT)}[case.name]


@pytest.mark.parametrize("rules", ["paper", "full"])
@pytest.mark.parametrize(("case", "words", "where"), REGISTRATION, ids=lambda value: getattr(value, "name", None))
def test_registration_in_frames_of_functions(case, words, where, rules):
    inputs = case.inputs()
    options = {"coordinates": "auto"} if "matrices" not in words else {}
    net = calibrate(reqnn.revise(case.model(), example(case), outputs=words, rules=rules, **options).double(), inputs)
    rotated = case.rotated(inputs, R)
    left, right = homogeneous(case)
    usual, turned = outputs(net, inputs), outputs(net, rotated)
    expected = usual[0] @ right if left is None else left @ usual[0] @ right
    assert error(expected, turned[0]) < 1e-8
    if case.name == "alignment":
        assert error(usual[1] @ R.mT, turned[1]) < 1e-8
    assert error(usual[0], turned[0]) > 1e-3
    assert spread(usual[0]) > 1e-4
    assert any(where in note for note in net.report.notes)


def test_matrices_multiply_coordinates_in_the_frame():
    case, words, _ = REGISTRATION[2]
    notes = reqnn.revise(case.model(), example(case), outputs=words).report.notes
    assert any("matrices multiply coordinates in the PCA frame" in note for note in notes)
    with pytest.raises(NoRuleError):
        reqnn.revise(case.model(), example(case), outputs=("real", "real"))


def test_indices_of_a_data_loader_follow_the_points():
    case = Case("loaded", geometry.LoadedNeighbours, (2,))
    (xyz,) = case.inputs(dtype=torch.float32)
    generator = torch.Generator().manual_seed(2)
    near = torch.cdist(xyz, xyz).topk(5, largest=False)[1]
    coarse = torch.stack([torch.randperm(xyz.shape[1], generator=generator)[:12] for _ in xyz])
    reqnn.revise(case.model(), (xyz, near, coarse))  # the self-check names the same points
    with pytest.raises(SelfCheckError, match="order of the points"):  # other points, whatever the order
        reqnn.revise(case.model(), (xyz, near % 5, coarse))


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_clouds_of_several_decoders_meet_the_given_one(rules):
    case = Case("patches", geometry.Patches, (1,))
    inputs = case.inputs()
    net = calibrate(reqnn.revise(case.model(), example(case), coordinates="auto", rules=rules).double(), inputs)
    for usual, turned in zip(outputs(net, inputs), outputs(net, case.rotated(inputs, R)), strict=True):
        assert error(torch.einsum("ij,bjn->bin", R, usual), turned) < 1e-8
        assert error(usual, turned) > 1e-3
        assert spread(usual) > 1e-3


@pytest.mark.parametrize(("given", "named"), [([[5, 0, 3], [4, 1, 2]], True), ([[1, 0, 1], [0, 1, 1]], False)])
def test_which_integers_name_points(given, named):
    """Indices of 6 points change with their order, a table of two classes does not."""
    x, table = torch.randn(1, 6, 3), torch.tensor(given)[None]
    order = torch.tensor([[3, 1, 5, 0, 2, 4]])
    inputs, args = read_inputs((x, table), None, 0)
    moved = Clouds(args, inputs, 1).reordered({6: order})
    assert torch.equal(moved[0], x[:, order[0]])
    if named:
        assert torch.equal(moved[0][0][moved[1][0]], x[0][table[0]])
    else:
        assert torch.equal(moved[1], table)
