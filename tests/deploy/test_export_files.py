"""Exported files: they run without this package, for any sizes; one that is wrong is not left behind."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import reqnn
import reqnn.cli
from reqnn.data import surfaces
from reqnn.deploy import proof
from reqnn.deploy.exporter import Deployed
from reqnn.errors import MissingPackageError
from reqnn.models.grouping import farthest_point_sample, get_graph_feature, index_points

NO_ONNX = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(NO_ONNX), reason=f"pip install 'reqnn[export]': {', '.join(NO_ONNX)} missing")
FORMATS = ["pt2", pytest.param("onnx", marks=needs_onnx)]
ALONE = str(Path(__file__).parents[2] / "experiments/export_alone.py")


class Sampled(nn.Module):
    """Farthest points, the k nearest of each in the whole cloud, one layer, a real head: all that a graph network needs."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16)
        self.fc1, self.fc2 = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, points):
        centres = index_points(points, farthest_point_sample(points, 12))
        x = get_graph_feature(centres.transpose(1, 2), 5, points.transpose(1, 2))
        x = torch.relu(self.bn(self.conv(x))).amax((2, 3))
        return self.fc2(nn.functional.leaky_relu(self.fc1(x), 0.2))


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = reqnn.revise(Sampled(), torch.randn(2, 40, 3), rules="full", to_real="fc1")
    net.train()(surfaces(16, 64, seed=5, dtype=torch.float32)[0])  # statistics
    return net


class Pooled(nn.Module):
    """The least that can be exported, for tests of what is refused."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, points):
        return self.fc(torch.relu(self.bn(self.conv(points.transpose(1, 2)))).mean(2))


@pytest.fixture
def pooled():
    torch.manual_seed(0)
    net = reqnn.revise(Pooled(), torch.randn(2, 40, 3), rules="full")
    net.train()(surfaces(16, 40, seed=5, dtype=torch.float32)[0])
    return net


@pytest.fixture(autouse=True)
def few_clouds(monkeypatch):
    """Eight clouds in place of 64, one by one and in pairs; the first test has all of them."""
    monkeypatch.setattr(proof, "CLOUDS", 8)
    monkeypatch.setattr(proof, "GROUP", 2)


@pytest.mark.parametrize("ending", FORMATS)
def test_runs_alone_for_any_number_of_clouds_and_points(net, ending, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "CLOUDS", 64)
    monkeypatch.setattr(proof, "GROUP", 8)
    path, classes = tmp_path / f"net.{ending}", ["a", "b", "c"]
    about = reqnn.export(net, torch.randn(2, 40, 3), path, classes=classes)
    assert net.training  # it is left as it was
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, f"{path.name}.json"]
    assert about["proof"]["clouds"] >= 64
    assert about["proof"]["batches"] == [1, 8]
    assert about["proof"]["exact"]["network"] < 1e-9
    assert about["proof"]["exact"]["file"] < 1e-6
    assert about["proof"]["parity"] <= 1e-3
    assert about["proof"]["points"] == [40, 51]
    assert about["inputs"] == [["batch", "points", 3]]
    blocked = "reqnn" if ending == "pt2" else "reqnn,torch"
    for clouds, points in ((1, 300), (5, 21)):
        given = 30 * surfaces(clouds, points, seed=clouds, dtype=torch.float32)[0] + torch.tensor([7.0, 0.0, -3.0])
        np.save(tmp_path / "points.npy", given.numpy())
        words = [ALONE, str(path), str(tmp_path / "points.npy"), str(tmp_path / "out.npy"), blocked]
        done = subprocess.run([sys.executable, "-I", *words], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == about
        near = given - given.mean(1, keepdim=True)
        expected = in_eval(net, near / near.norm(dim=-1).amax(1)[:, None, None]).softmax(-1)
        torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "out.npy")), expected, rtol=0, atol=1e-4)


@torch.no_grad()
def in_eval(net, points):
    with reqnn.train.prediction.evaluating(net):
        return net(points)


class Floored(nn.Module):
    """A constant that float32 does not hold, as the rules' ε."""

    def forward(self, x):
        return torch.where(x > 0, x, 1e-5) / (x.abs() + 1e-5)


@needs_onnx
def test_constants_in_float64_are_exact_in_onnx(tmp_path):
    """Torch's own translation rounds them to float32, and is off by 2.5e-8."""
    x = torch.linspace(-1e-5, 1e-5, 9, dtype=torch.float64)
    module = sys.modules["reqnn.deploy.exporter"]
    with module._quiet():
        module._write_onnx(torch.export.export(Floored(), (x,)), (x,), tmp_path / "net.onnx")
    torch.testing.assert_close(module._load_onnx(tmp_path / "net.onnx")((x,))[0], Floored()(x), rtol=1e-14, atol=0)


@needs_onnx
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm_of_a_channel_without_variance_is_exact_in_onnx(affine, dtype, tmp_path):
    """There the ε decides; ONNX's own operator holds it in float32."""
    layer = nn.BatchNorm1d(3, affine=affine).to(dtype).eval()
    layer.running_var.copy_(torch.tensor([0.0, 1e-5, 2.0]))
    layer.running_mean.copy_(torch.tensor([0.1, 0.0, -3.0]))
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x, module = torch.randn(2, 3, 5, dtype=dtype), sys.modules["reqnn.deploy.exporter"]
    with module._quiet():
        module._write_onnx(torch.export.export(layer, (x,)), (x,), tmp_path / "net.onnx")
    found = module._load_onnx(tmp_path / "net.onnx")((x,))[0]
    torch.testing.assert_close(found, layer(x), rtol=1e-13 if dtype == torch.float64 else 1e-5, atol=0)


@needs_onnx
def test_an_onnx_file_holds_no_lines_of_code_and_no_path(pooled, tmp_path):
    reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.onnx")
    assert b".py" not in (tmp_path / "net.onnx").read_bytes()


def test_steps_are_named_while_a_file_is_written_and_checked(pooled, tmp_path):
    steps = []
    reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.pt2", step=steps.append)
    assert steps[:2] == ["tracing the network", "writing the file"]
    assert "checking the file: 4 of 8 clouds" in steps


class Directed(nn.Module):
    """In the place of `Deployed`: its answers depend a little on the orientation."""

    def __init__(self, network, *options):
        super().__init__()
        self.inner = Deployed(network, *options)

    def forward(self, *points):
        return self.inner(*points) + 0.1 * points[0].mean(1) / points[0].std()


def test_a_file_whose_answers_follow_the_orientation_is_not_left_behind(pooled, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["reqnn.deploy.exporter"], "Deployed", Directed)
    with pytest.raises(reqnn.ExportError, match="rotated copies differ") as caught:
        reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.pt2")
    assert caught.value.proof.invariance > 1e-3
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_differs_from_the_network_is_not_left_behind(pooled, tmp_path, monkeypatch):
    module = sys.modules["reqnn.deploy.exporter"]
    pt2 = module.FORMATS["pt2"]

    def wrong(program, args, path):
        bias = program.state_dict["network.model.fc.bias"]
        program.state_dict["network.model.fc.bias"] = nn.Parameter(bias + 0.1)
        pt2.write(program, args, path)

    monkeypatch.setitem(module.FORMATS, "pt2", pt2._replace(write=wrong))
    with pytest.raises(reqnn.ExportError, match="the file differs from the network"):
        reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_cannot_tell_clouds_apart_proves_nothing(pooled, tmp_path):
    nn.init.zeros_(pooled.fc.weight)
    with pytest.raises(reqnn.ExportError, match="hardly differ between clouds"):
        reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_single_wrong_answer_fails(pooled, tmp_path, monkeypatch):
    """Of 24 clouds and copies: a share of right ones is not enough."""
    formats, calls = sys.modules["reqnn.deploy.exporter"].FORMATS, []
    pt2 = formats["pt2"]

    def spoiled(path):
        run = pt2.load(path)

        def once(args):
            calls.append(args)
            return [x + 0.05 * (len(calls) == 5) for x in run(args)]

        return once

    monkeypatch.setitem(formats, "pt2", pt2._replace(load=spoiled))
    with pytest.raises(reqnn.ExportError, match="rounding does not explain it") as caught:
        reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.pt2")
    assert caught.value.proof.ties == 0
    assert len(calls) > 5


@pytest.mark.parametrize(("gap", "tie"), [(1e-8, True), (1e-4, False)])
def test_an_answer_is_excused_only_if_the_network_gives_it_for_a_cloud_that_differs_by_rounding(gap, tie):
    """A network that jumps at a distance of 1 from the origin; a file that jumps at 1 - gap."""
    network = lambda clouds: [[(args[0].norm(dim=-1).amax(1, keepdim=True) > 1).double()] for args in clouds]  # noqa: E731
    given = [(torch.tensor([[[1.0 - gap, 0, 0], [0, 0.5, 0]]]),)]
    for answer, nearest in ((1.0, 0.0 if tie else 1.0), (0.5, 0.5)):  # the other one, and one that it never gives
        answers = [[torch.full((1, 1), answer)]]
        assert proof.nearest(network, answers, given, [answer], [1.0], 1e-3) == [nearest]


def test_per_point_outputs_normals_and_fixed_sizes(tmp_path):
    """(B, 6, N) with normals → a label per point: outputs follow the order of the points."""

    class ByPoint(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn, self.conv2 = nn.Conv1d(6, 8, 1), nn.BatchNorm1d(8), nn.Conv1d(16, 4, 1)

        def forward(self, x):
            x = torch.relu(self.bn(self.conv1(x)))
            return self.conv2(torch.cat([x, x.amax(2, keepdim=True).expand_as(x)], 1))

    example = torch.cat(surfaces(2, 32, dtype=torch.float32), -1).mT.contiguous()
    net = reqnn.revise(ByPoint(), example, rules="full", to_real="conv2")
    net.train()(example)
    about = reqnn.export(net, example, tmp_path / "net.pt2", dynamic=("points",))
    assert about["inputs"] == [[2, 6, "points"]]
    assert about["proof"]["batches"] == [2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "net.bin"}, "must end in .pt2 or .onnx"),
        ({"points": torch.randn(1, 40, 3)}, "give two clouds or more"),
        ({"dynamic": ("time",)}, "it holds 'batch'"),
        ({"classes": ["a"]}, "1 classes are named"),
        ({"net": nn.Linear(3, 3)}, "reqnn.revise it"),
    ],
)
def test_wrong_arguments(pooled, tmp_path, change, message):
    given = {"net": pooled, "points": torch.randn(2, 40, 3), "path": "net.pt2"} | change
    with pytest.raises(reqnn.InputError, match=message):
        reqnn.export(given.pop("net"), given.pop("points"), tmp_path / given.pop("path"), **given)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_noticed_before_the_network_is_traced(pooled, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr(sys.modules["reqnn.deploy.exporter"], "_program", lambda *_: pytest.fail("traced"))
    with pytest.raises(MissingPackageError, match="reqnn\\[export\\]"):
        reqnn.export(pooled, torch.randn(2, 40, 3), tmp_path / "net.onnx")


def test_command_refuses_what_is_no_size(capsys):
    assert reqnn.cli.main(["export", "dgcnn.full.modelnet40", "--out", "net.pt2", "--points", "many"]) == 2
    assert "give dynamic, or a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("pointnet2", {"npoint": (12, 4), "nsample": (4, 4), "radius": (0.4, 0.8)}),
        ("pointconv", {"npoint": (12, 4), "nsample": (4, 4)}),
        ("kd_network", {"depth": 3}),
        ("rscnn", {"npoint": (12, 4), "nsample": (4, 4), "radius": (0.4, 0.8)}),
    ],
)
def test_networks_of_the_zoo_do_not_fix_the_numbers_of_clouds_and_points(model, options):
    net = reqnn.create_model(model, equivariant=True, rules="paper", width=0.125, **options).eval()
    module = sys.modules["reqnn.deploy.exporter"]
    axes = [{0: "batch", 1: "points"}]
    program = module._program(Deployed(net, False, False), (torch.randn(2, 20, 3),), axes).module()
    points = torch.randn(3, 33, 3)
    with torch.no_grad():
        torch.testing.assert_close(program(points), net(points), rtol=1e-3, atol=1e-5)


@needs_onnx
@pytest.mark.parametrize("layer", [nn.Conv1d(5, 4, 1), nn.Conv2d(5, 4, 1, bias=False)], ids=["conv1d", "conv2d"])
def test_pointwise_convolutions_run_in_float64_in_onnx(layer, tmp_path):
    """ONNX Runtime has no Conv in float64; as a matrix product it runs, for any sizes."""
    layer = layer.double()
    rank = 3 if isinstance(layer, nn.Conv1d) else 4
    x = torch.randn(2, 5, *[7] * (rank - 2), dtype=torch.float64)
    module = sys.modules["reqnn.deploy.exporter"]
    sizes = dict.fromkeys((0, *range(2, rank)), torch.export.Dim.DYNAMIC)
    with module._quiet():
        module._write_onnx(torch.export.export(layer, (x,), dynamic_shapes=(sizes,)), (x,), tmp_path / "net.onnx")
    given = torch.randn(3, 5, *range(8, 6 + rank), dtype=torch.float64)
    torch.testing.assert_close(module._load_onnx(tmp_path / "net.onnx")((given,))[0], layer(given), rtol=1e-12, atol=1e-12)


@needs_onnx
def test_other_convolutions_are_left_to_torch(tmp_path):
    layer, x = nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), torch.randn(2, 4, 9)
    module = sys.modules["reqnn.deploy.exporter"]
    with module._quiet():
        module._write_onnx(torch.export.export(layer, (x,)), (x,), tmp_path / "net.onnx")
    torch.testing.assert_close(module._load_onnx(tmp_path / "net.onnx")((x,))[0], layer(x), rtol=1e-5, atol=1e-5)
