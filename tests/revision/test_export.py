"""Revised networks through `torch.export` and `torch.compile`: plain graphs that give the same outputs."""

import copy
import functools
import shutil
import warnings

import pytest
import torch
from torch import nn

import reqnn
from networks import CASES
from networks.checks import ROTATIONS, calibrate, error, outputs, revised
from reqnn import QuaternionTensor
from reqnn.errors import ExportError

CHOSEN = {case.name: case for case in CASES}
EXPORTED = [
    "functional", "edges", "set_abstraction", "transformer_encoder", "residual", "colours",
    "part_segmentation", "offsets", "transformers",
]  # fmt: skip


@functools.cache
def exported(name):
    """Return the exported program of a case."""
    return torch.export.export(revised(CHOSEN[name]), CHOSEN[name].inputs())


@pytest.mark.parametrize(
    "name",
    EXPORTED,
)
def test_export(name):
    """The outputs are the network's own, also on turned clouds."""
    case = CHOSEN[name]
    net, inputs, program = revised(case), case.inputs(), exported(name)
    for node in program.graph.nodes:
        assert not isinstance(node.meta.get("val"), QuaternionTensor)
        assert "Quaternion" not in str(node.target)
    assert all(type(value) is not QuaternionTensor for value in program.constants.values())
    for given in (inputs, case.inputs(seed=2), case.rotated(inputs, ROTATIONS[0])):
        for a, b in zip(outputs(net, given), outputs(program.module(), given), strict=True):
            assert error(a, b) <= 1e-9


@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
def test_exported_programs_are_saved_and_loaded(gradients, tmp_path):
    case = CHOSEN["edges"]
    net, inputs = revised(case), case.inputs()
    if gradients:
        program = exported("edges")
    else:
        with torch.no_grad():
            program = torch.export.export(net, inputs)
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2").module()
    assert all(error(a, b) <= 1e-9 for a, b in zip(outputs(net, inputs), outputs(loaded, inputs), strict=True))


@pytest.mark.parametrize("name", ["functional", "edges"])
def test_export_with_any_number_of_clouds(name):
    case = CHOSEN[name]
    net, (points,) = revised(case), case.inputs()
    program = torch.export.export(net, (points,), dynamic_shapes={"args": ({0: torch.export.Dim("clouds", min=2)},)})
    for count in (2, 3, 4):
        assert error(net(points[:count]), program.module()(points[:count])) <= 1e-9


def compiled(name, backend):
    """Return a revised network, its compiled copy, and inputs."""
    case = CHOSEN[name]
    net = copy.deepcopy(revised(case))
    torch._dynamo.reset()
    return net, torch.compile(copy.deepcopy(net), backend=backend), case.inputs()


class OneLayer(nn.Module):
    """A convolution, a maximum and a classifier: little for a compiler to do."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, points):
        return self.fc(torch.relu(self.bn(self.conv(points.mT))).max(2)[0])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="torch.compile needs a C compiler")
def test_compile():
    points = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net = calibrate(reqnn.revise(OneLayer(), points.float(), vector_axis=-1).double(), (points,))
    torch._dynamo.reset()
    fast = torch.compile(copy.deepcopy(net), backend="inductor")
    assert error(net(points), fast(points)) <= 1e-9


@pytest.mark.parametrize("name", ["edges", "set_abstraction"])
def test_compile_without_a_compiler(name):
    """The graphs that `torch.compile` sees, run by torch itself: inductor takes a minute for each of these."""
    net, fast, inputs = compiled(name, "eager")
    assert all(error(a, b) <= 1e-9 for a, b in zip(outputs(net, inputs), outputs(fast, inputs), strict=True))


def test_compiled_networks_train():
    net, fast, inputs = compiled("functional", "aot_eager")
    for module in (net, fast):
        module(*inputs).square().sum().backward()
    for a, b in zip(net.parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-9)


def test_torch_jit_ends_in_advice():
    points = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    net = reqnn.revise(OneLayer(), points, vector_axis=-1).eval()
    for attempt in (lambda: torch.jit.script(net), lambda: torch.jit.trace(net, points)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with pytest.raises(ExportError, match=r"use torch\.export, or reqnn\.export"):
                attempt()
