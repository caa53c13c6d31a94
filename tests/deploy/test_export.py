"""Exported files: they run without this package, for any sizes; one that is wrong is not left behind."""

import importlib.util
import json
import subprocess
import sys

import pytest
import torch
from torch import nn

import reqnn
from reqnn.data import surfaces
from reqnn.deploy import proof
from reqnn.deploy.export import METADATA

NO_ONNX = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(NO_ONNX), reason=f"pip install 'reqnn[export]': {', '.join(NO_ONNX)} missing")
FORMATS = ["pt2", pytest.param("onnx", marks=needs_onnx)]
ALONE = """
import sys
import numpy as np
from importlib.machinery import PathFinder

blocked, find = sys.argv[1].split(","), PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in blocked else find(name, *more)
points, path = np.load(sys.argv[2]), sys.argv[3]
if path.endswith("pt2"):
    import torch
    extra = {"reqnn.json": ""}
    module = torch.export.load(path, extra_files=extra).module()
    found, about = module(torch.from_numpy(points)).detach().numpy(), extra["reqnn.json"]
else:
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    found = session.run(None, {"points": points})[0]
    about = session.get_modelmeta().custom_metadata_map["reqnn.json"]
assert "reqnn" not in sys.modules
np.save(sys.argv[4], found)
print(about if isinstance(about, str) else about.decode())
"""


class Sampled(nn.Module):
    """Farthest points, the k nearest of each in the whole cloud, one layer, a head: all that a graph network needs."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16), nn.Linear(16, 3)

    def forward(self, points):
        centres = reqnn.models.grouping.index_points(points, farthest_point_sample(points, 12))
        x = reqnn.models.grouping.get_graph_feature(centres.transpose(1, 2), 5, points.transpose(1, 2))
        return self.fc(torch.relu(self.bn(self.conv(x))).amax((2, 3)))


from reqnn.models.grouping import farthest_point_sample  # noqa: E402 - by its name in this module, which revise looks up


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = reqnn.revise(Sampled(), torch.randn(2, 40, 3), rules="full")
    net.train()(surfaces(16, 64, seed=5, dtype=torch.float32)[0])  # statistics
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
    assert about["proof"]["points"] == [40, 51]
    assert about["inputs"] == [["batch", "points", 3]]
    blocked = "reqnn" if ending == "pt2" else "reqnn,torch"
    for clouds, points in ((1, 300), (5, 21)):
        given = 30 * surfaces(clouds, points, seed=clouds, dtype=torch.float32)[0] + torch.tensor([7.0, 0.0, -3.0])
        torch_file, out = tmp_path / "points.npy", tmp_path / "out.npy"
        import numpy as np

        np.save(torch_file, given.numpy())
        words = [sys.executable, "-c", ALONE, blocked, str(torch_file), str(path), str(out)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        inside = json.loads(done.stdout)
        assert inside == about
        assert inside["classes"] == classes
        near = given - given.mean(1, keepdim=True)
        near = near / near.norm(dim=-1).amax(1)[:, None, None]
        with torch.no_grad():
            expected = reqnn.deploy.export_module(net)(near) if False else _eval(net, near).softmax(-1)
        torch.testing.assert_close(torch.from_numpy(np.load(out)), expected, rtol=0, atol=1e-4)


def _eval(net, points):
    net.eval()
    try:
        return net(points)
    finally:
        net.train()
