"""Kinds of published network by every rule set: invariant to rotations and orders of points, which the originals are not."""

import pytest
import torch

import reqnn
from experiments.networks import weights
from networks import Case, published
from networks.checks import ORDER, ROTATIONS, calibrate, error, example, outputs, spread
from reqnn.tensor import from_real

NETWORKS = [
    published.PatchTransformer,
    published.GroupedVectorAttention,
    published.AttentivePooling,
    published.CurveAggregation,
    published.Messages,
    published.PerCoordinate,
    weights.LocalSpatialEncoding,
    weights.RelationShape,
    weights.CurveGate,
]


def case_of(network):
    return Case(network.__name__, network, (1,) if network is published.PerCoordinate else (2,))


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("network", NETWORKS)
def test_rotated_and_reordered(network, rules):
    case = case_of(network)
    options = {"products": 4} if rules == "full" else {"frame_width": 8} if rules == "vector-neurons" else {}
    chosen = reqnn.get_rules(rules).with_options(**options)
    net = reqnn.revise(case.model(), example(case), rules=chosen, check=False).double()
    inputs = case.inputs()
    (usual,) = outputs(calibrate(net, inputs), inputs)
    moved = case.reordered(case.rotated(inputs, ROTATIONS[0]), ORDER)
    (rotated,) = outputs(net, moved)
    assert error(usual, rotated) < 1e-9
    assert spread(usual) > 1e-6


@pytest.mark.parametrize("network", NETWORKS)
def test_the_original_is_not_invariant(network):
    case = case_of(network)
    model, inputs = case.model().double(), case.inputs()
    (usual,), (rotated,) = (outputs(calibrate(model, inputs), x) for x in (inputs, case.rotated(inputs, ROTATIONS[0])))
    assert error(usual, rotated) > 1e-3


def test_weights_per_coordinate_are_an_extension():
    case = case_of(published.PerCoordinate)
    net = reqnn.revise(case.model(), example(case), check=False)
    assert any(row.row == "Weights per coordinate" and row.extension for row in net.report.rows)
    assert net.gain.shape == (9,)  # its parts are averaged, it is not re-sized
    assert net.depth.weight.shape == (12, 1, 1)
    with pytest.raises(reqnn.NoRuleError, match=r"weights per coordinate.*strict=True"):
        reqnn.revise(case.model(), example(case), strict=True)


def test_groups_of_coordinates_are_groups_of_vectors():
    """By hand: each filter of x, y and z acts on the vector."""
    weight = torch.randn(12, 1, 1, dtype=torch.float64)
    points = torch.randn(2, 6, 5, dtype=torch.float64)
    given = torch.conv1d(from_real(points, 1), weight, groups=6)
    expected = weight.view(1, 2, 6, 1, 1) * points.view(2, 2, 1, 3, 5)
    assert torch.equal(given.components, expected.flatten(1, 2).movedim(2, 0))


def test_class_tokens():
    """By the paper's rules a learned token is a bias and goes; by "full" it is a real part."""
    case = case_of(published.PatchTransformer)
    net = reqnn.revise(case.model(), example(case), check=False)
    assert {"token", "place"} <= set(net.report.dropped)
    net = reqnn.revise(case.model(), example(case), rules="full", check=False)
    assert not {"token", "place"} & set(net.report.dropped)
    net(*case.inputs(dtype=torch.float32)).square().sum().backward()
    assert float(net.place.grad.abs().max()) > 0
