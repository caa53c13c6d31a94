"""Input that cannot be a cloud is refused, by `revise` and by the revised network, before any work is done."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

import reqnn
from networks import classifiers, coordinates, dense_outputs, graph, set_abstraction
from reqnn import InputError
from reqnn.revision.inputs import read_inputs

GOOD = torch.randn(4, 3, 24, generator=torch.Generator().manual_seed(0))


def with_value(value):
    """Return the good cloud with one bad number in it."""
    bad = GOOD.clone()
    bad[2, 1, 5] = value
    return bad


BAD = {
    "nan": (with_value(float("nan")), "NaN or infinite"),
    "inf": (with_value(float("inf")), "NaN or infinite"),
    "minus_inf": (with_value(float("-inf")), "NaN or infinite"),
    "no_clouds": (GOOD[:0], "empty"),
    "no_points": (GOOD[:, :, :0], "empty"),
    "integers": (torch.randint(0, 9, (4, 3, 24)), r"int64.*\.float\(\)"),
    "booleans": (GOOD > 0, r"bool.*\.float\(\)"),
    "one_axis": (GOOD[0, :, 0], r"\(3,\)"),
}


class Counting(classifiers.Functional):
    """A network that counts how often it runs."""

    calls = 0

    def forward(self, x):
        Counting.calls += 1
        return super().forward(x)


@functools.cache
def revised():
    return reqnn.revise(classifiers.Functional(), GOOD).eval()


@pytest.mark.parametrize(("points", "message"), BAD.values(), ids=BAD)
def test_bad_examples_are_refused_before_the_model_runs(points, message):
    Counting.calls = 0
    with pytest.raises(InputError, match=message):
        reqnn.revise(Counting(), points)
    assert Counting.calls == 0


@pytest.mark.parametrize(("points", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_by_the_revised_network(points, message):
    net, ran = revised(), []
    handle = net.conv1.register_forward_pre_hook(lambda *_: ran.append(1))
    with pytest.raises(InputError, match=message):
        net(points)
    handle.remove()
    assert not ran
    assert net(GOOD).shape == (4, 5)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.randn(4, 6, 24), r"\(4, 6, 24\); axis 1 must hold the 3 channels"),
        (torch.randn(4, 24, 3), r"\(4, 24, 3\); axis 1 must hold the 3 channels"),
        (torch.randn(3, 24), r"\(3, 24\), 2 axes; .* 3 axes"),
        (torch.randn(1, 4, 3, 24), "4 axes; .* 3 axes"),
    ],
)
def test_other_layouts_are_refused_by_the_revised_network(points, message):
    with pytest.raises(InputError, match=message):
        revised()(points)


def test_the_revised_network_refuses_what_is_no_tensor():
    with pytest.raises(InputError, match="ndarray"):
        revised()(GOOD.numpy())


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (torch.randn(4, 4, 25), {}, r"no input has an axis of 3·V coordinates: \(4, 4, 25\)"),
        (torch.randn(4, 5, 24), {"vector_axis": 1}, r"has 5 channels: the rest must be 3·V.*scalars="),
        (torch.randn(4, 5, 25), {"scalars": 1}, "3·V coordinates and 1 scalars"),
        (torch.randn(4, 6, 24), {"scalars": 6}, "3·V coordinates and 6 scalars"),
        (torch.randn(4, 6, 24), {"scalars": 2, "vector_axis": 1}, "6 channels, 2 of them scalars"),
        (torch.randn(4, 3, 3), {}, r"several axes that could hold vectors \(\[1, 2\]\); say which with vector_axis="),
        (torch.randn(4, 6, 9), {}, r"several axes that could hold vectors"),
        (torch.randn(4, 3, 24), {"vector_axis": 3}, "vector_axis=3 is no axis"),
        (np.zeros((4, 3, 24)), {}, "ndarray"),
        ((), {}, "no input"),
        (None, {}, "NoneType"),
    ],
    ids=[
        "no_axis", "five_channels", "scalars", "only_scalars", "scalars_left", "two_axes", "two_wide_axes", "axis_too_large",
        "numpy", "nothing", "none",
    ],
)  # fmt: skip
def test_layouts_that_cannot_be_read(points, options, message):
    with pytest.raises(InputError, match=message):
        read_inputs(points, **options)


@pytest.mark.parametrize("vector_axis", [1.0, (1, None), (7,)], ids=str)
def test_vector_axes_that_do_not_fit_the_inputs(vector_axis):
    with pytest.raises(InputError, match="vector_axis"):
        read_inputs(torch.randn(4, 3, 24), vector_axis=vector_axis)


@pytest.mark.parametrize(
    ("shape", "options", "axis"),
    [
        ((4, 3, 24), {}, 1),
        ((4, 24, 3), {}, 2),
        ((3, 24, 3), {}, 2),
        ((3, 3, 25), {}, 1),
        ((4, 6, 25), {}, 1),
        ((4, 25, 6), {}, 2),
        ((4, 25, 9), {}, 2),
        ((4, 6, 3), {}, 2),
        ((4, 1024, 6), {}, 2),
        ((4, 4, 25), {"scalars": 1}, 1),
        ((4, 25, 7), {"scalars": 4}, 2),
        ((25, 3), {}, 1),
        ((4, 3, 3), {"vector_axis": 2}, 2),
        ((4, 3, 3), {"vector_axis": -2}, 1),
        ((4, 3, 5, 7), {}, 1),
        ((2, 5, 7, 3), {}, 3),
    ],
)
def test_layouts_that_can_be_read(shape, options, axis):
    inputs, args = read_inputs(torch.randn(shape), **options)
    assert inputs.axes == (axis,)
    assert inputs.channels == (shape[axis],)
    assert len(args) == 1


def test_several_inputs_are_read():
    points, label, count = torch.randn(4, 3, 24), torch.randn(4, 16), 7
    inputs, _ = read_inputs((points, label, count))
    assert inputs.axes == (1, None, None)
    assert read_inputs((points, torch.arange(4)))[0].axes == (1, None)
    assert read_inputs([points, points.transpose(1, 2)])[0].axes == (1, 2)


def test_bad_values_in_a_second_cloud():
    with pytest.raises(InputError, match="NaN or infinite"):
        read_inputs((torch.randn(4, 24, 3), torch.full((4, 24, 3), float("nan"))))
    net = reqnn.revise(dense_outputs.TwoClouds(), (torch.randn(4, 24, 3), torch.randn(4, 24, 3))).eval()
    with pytest.raises(InputError, match="NaN or infinite"):
        net(torch.randn(4, 24, 3), torch.full((4, 24, 3), float("nan")))


def test_a_missing_second_cloud():
    net = reqnn.revise(dense_outputs.TwoClouds(), (torch.randn(4, 24, 3), torch.randn(4, 24, 3))).eval()
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        net(torch.randn(4, 24, 3))


FEW = {
    "edges": (graph.EdgeNetwork, (4, 3, 5), {}),
    "weight_net": (coordinates.WeightedConvolution, (4, 3, 5), {"coordinates": ("weightnet",)}),
    "set_abstraction": (set_abstraction.Hierarchy, (4, 3, 8), {}),
}


@pytest.mark.parametrize(("build", "shape"), [row[:2] for row in FEW.values()][:2], ids=list(FEW)[:2])
def test_examples_with_fewer_points_than_neighbours(build, shape):
    with pytest.raises(InputError, match="the model itself fails on the example input"):
        reqnn.revise(build(), torch.randn(shape))


@pytest.mark.parametrize(
    ("build", "shape", "options"),
    [pytest.param(*row, id=name) for name, row in FEW.items()],
)
def test_fewer_points_than_neighbours(build, shape, options):
    net = reqnn.revise(build(), torch.randn(4, 3, 24), **options).eval()
    with pytest.raises(InputError, match=rf"of {shape[-1]} points"):
        net(torch.randn(shape))


def test_the_models_own_failure_is_told_apart():
    with pytest.raises(InputError, match=r"the model itself fails on the example input \(RuntimeError: .*") as caught:
        reqnn.revise(nn.Sequential(nn.Conv1d(6, 8, 1)), torch.randn(4, 3, 24))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_one_cloud_of_one_point():
    net = revised()
    assert torch.isfinite(net(torch.randn(1, 3, 1))).all()


def test_points_all_at_the_origin():
    """Zero vectors: finite outputs and gradients."""
    net = reqnn.revise(classifiers.Functional(), GOOD).train()
    points = torch.zeros(4, 3, 24, requires_grad=True)
    net(points).sum().backward()
    assert torch.isfinite(points.grad).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())
