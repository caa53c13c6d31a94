"""The core alone: revise, audit and shipped weights work; what needs more says in one line what to install."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reqnn.errors import MissingPackageError
from reqnn.extras import EXTRAS, need

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
BLOCKED = (*EXTRAS, "filelock", "pandas", "psutil", "pooch", "requests", "torchmetrics", "hypothesis", "einops")
CORE_ONLY = f"""
import sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in {BLOCKED} else find(name, *more)
"""


REVISE = """
import torch
from torch import nn
import reqnn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.Linear(8, 5)
    def forward(self, x):
        return self.fc(torch.relu(self.bn(self.conv(x))).max(-1)[0])

points = torch.randn(2, 3, 32)
net = reqnn.revise(Net(), points).eval()
R = reqnn.quaternion.random_matrix(1)[0].float()
assert torch.allclose(net(R @ points), net(points), atol=1e-5)
report = reqnn.audit(net, points, rotations=2)
assert report.ok, str(report)
dgcnn = reqnn.create_model("dgcnn", equivariant=True, num_classes=3, width=0.125, k=4)
assert dgcnn(torch.randn(2, 32, 3)).shape == (2, 3)
trained = reqnn.load("dgcnn.paper.modelnet40")
assert len(trained.classes) == 40
"""
COMMANDS = {
    "predict chair.ply": "trimesh",
    "align a.xyz b.xyz": "scipy",
    "train --data digits --model pointnet": "lightning_fabric",
    "data info digits": "sklearn",
    "audit --model pointnet --equivariant --rotations 2 --points 2,32,3": "",
}
"""Command → the package that it lacks."""

CALL = """
import contextlib, io, json
from reqnn.cli import main

found = {}
for words in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words.split())
    found[words] = code, said.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Everything in one process, which takes seconds to start: command → exit code and stderr."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "chair.ply").write_text("ply\nformat ascii 1.0\nelement vertex 1\nend_header\n0 0 0\n")
    for name in "ab":
        (folder / f"{name}.xyz").write_text("".join(f"{i} {i * i % 7} {i * i * i % 5}\n" for i in range(20)))
    command = [sys.executable, "-c", CORE_ONLY + REVISE + CALL, *COMMANDS]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize(("words", "package"), COMMANDS.items())
def test_a_command_works_or_says_in_one_line_what_to_install(done, words, package):
    code, said = done[words]
    assert code == (2 if package else 0), said
    if package:
        assert f"{package} is needed for this and not installed: pip install 'reqnn[{EXTRAS[package]}]'" in said
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) == 1


def test_the_extras_hold_what_is_said_to_be_in_them():
    for package, extra in EXTRAS.items():
        listed = " ".join(PROJECT["optional-dependencies"][extra])
        assert {"sklearn": "scikit-learn", "lightning_fabric": "lightning-fabric"}.get(package, package) in listed


def test_an_error_inside_a_package_stays(monkeypatch):
    with pytest.raises(ModuleNotFoundError):
        need("no_such_package_anywhere")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'reqnn\[data\]'"):
        need("h5py")
