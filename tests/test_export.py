"""Revised networks through `torch.export` and `torch.compile`: plain graphs that give the same outputs."""

import copy
import shutil

import pytest
import torch

import reqnn
from networks import CASES
from networks.checks import error, outputs, revised
from reqnn import QuaternionTensor

CHOSEN = {case.name: case for case in CASES}
EXPORTED = [
    "functional", "edges", "set_abstraction", "set_abstraction_normals", "weight_net", "transformer_encoder", "residual",
    "colours", "part_segmentation", "offsets", "latent_autoencoder", "transformers", "einops_functions",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPORTED)
def test_export(name):
    case = CHOSEN[name]
    net, inputs = revised(case), case.inputs()
    program = torch.export.export(net, inputs)
    for node in program.graph.nodes:
        assert not isinstance(node.meta.get("val"), QuaternionTensor)
        assert "Quaternion" not in str(node.target)
    assert all(type(value) is not QuaternionTensor for value in program.constants.values())
    for seed in (1, 2):
        given = case.inputs(seed=seed)
        for a, b in zip(outputs(net, given), outputs(program.module(), given), strict=True):
            assert error(a, b) <= 1e-9


@pytest.mark.parametrize("name", ["functional", "edges", "set_abstraction"])
def test_exported_programs_are_saved_and_loaded(name, tmp_path):
    case = CHOSEN[name]
    net, inputs = revised(case), case.inputs()
    torch.export.save(torch.export.export(net, inputs), tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2").module()
    assert all(error(a, b) <= 1e-9 for a, b in zip(outputs(net, inputs), outputs(loaded, inputs), strict=True))


@pytest.mark.parametrize("name", ["functional", "edges"])
def test_export_with_any_number_of_clouds(name):
    case = CHOSEN[name]
    net, (points,) = revised(case), case.inputs()
    program = torch.export.export(net, (points,), dynamic_shapes=({0: torch.export.Dim("clouds", min=1, max=64)},))
    for count in (1, 3, 4):
        assert error(net(points[:count]), program.module()(points[:count])) <= 1e-9


def test_exported_graphs_are_invariant_too():
    case = CHOSEN["set_abstraction"]
    net, inputs = revised(case), case.inputs()
    program = torch.export.export(net, inputs).module()
    rotation = reqnn.quaternion.random_matrix((), dtype=torch.float64)
    assert error(outputs(program, inputs)[0], outputs(program, case.rotated(inputs, rotation))[0]) <= 1e-9


@pytest.mark.skipif(shutil.which("gcc") is None, reason="torch.compile needs a C compiler")
@pytest.mark.parametrize("name", ["functional", "edges", "set_abstraction"])
def test_compile(name):
    case = CHOSEN[name]
    net, inputs = copy.deepcopy(revised(case)), case.inputs()
    torch._dynamo.reset()
    compiled = torch.compile(net)
    assert all(error(a, b) <= 1e-9 for a, b in zip(outputs(net, inputs), outputs(compiled, inputs), strict=True))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="torch.compile needs a C compiler")
def test_compile_trains():
    case = CHOSEN["functional"]
    net, inputs = copy.deepcopy(revised(case)), case.inputs()
    twin = copy.deepcopy(net)
    torch._dynamo.reset()
    torch.compile(net)(*inputs).square().sum().backward()
    twin(*inputs).square().sum().backward()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-9)
