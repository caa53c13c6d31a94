"""A user's own networks and rule sets by name: in `train`, `audit`, `compare`, and when a run is loaded."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

import reqnn
from experiments.__main__ import main as experiments
from experiments.paper import budgets
from reqnn.cli import main
from reqnn.errors import InputError
from reqnn.importing import check_named_by_file, find
from reqnn.models import registry
from reqnn.train import load_run
from reqnn.train.config import TrainConfig, load_config
from reqnn.train.weights import load_tensors, save_tensors
from written_shapes import TINY, write_data

CODE = """
import torch
from os import system
from torch import nn
import reqnn
from reqnn.models import register

class Net(nn.Module):
    def __init__(self, num_classes=10, width=8):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 4 * width))
        self.head = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.head(self.local(x - x.mean(1, keepdim=True)).amax(1))

class Fixed(Net):
    def __init__(self):
        super().__init__(7)

class Transposed(Net):
    def forward(self, x):
        return super().forward(x.transpose(1, 2))

@register("net-with-a-recipe-for-tests", to_real="head")
class Registered(Net):
    pass

mine = reqnn.rules.RuleSet("mine", parent=reqnn.get_rules("full"))
calls = []

@mine.rule("relu", row="user")
def relu(x):
    calls.append("relu")
    return x * torch.sigmoid(x.norm_of_elements())
"""
SMALL = ["--points", "64", "--limit", "64", "--epochs", "1", "--batch", "16", "--recalibrate", "0", "--threads", "1"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "my_code.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    monkeypatch.delitem(sys.modules, "my_code", raising=False)
    yield tmp_path
    sys.modules.pop("my_code", None)


def test_train_and_evaluate_your_own_network_by_your_own_rules(place, capsys):
    words = ["train", "--model", "my_code.py:Net", "--options", '{"width": 4}', "--data", "digits", *SMALL]
    assert main([*words, "--equivariant", "--rules", "my_code.py:mine", "--out", "runs/mine"]) == 0
    assert find("my_code.py:calls")  # by that rule
    run = load_run("runs/mine")
    assert run.model.local[0].out_features == 4
    assert run.model.rules.name == "mine"
    points = torch.randn(3, 64, 3).double()
    rotation = reqnn.quaternion.random_matrix(dtype=torch.float64)
    torch.testing.assert_close(run.model.double()(points @ rotation.T), run.model.double()(points))
    assert main(["eval", "runs/mine", "--protocol", "NR"]) == 0
    assert main(["train", "--resume", "--out", "runs/mine"]) == 0
    assert main(words) == 0  # the ordinary network, in a folder with a plain name
    assert Path("runs/digits-Net-original-0/best.safetensors").exists()


def test_what_a_registered_class_says_holds(place):
    assert registry.model_entry("my_code.py:Registered").recipe == {"to_real": "head"}
    assert registry.model_entry("my_code:Net").recipe == {}
    assert reqnn.create_model("my_code:Net", True, 5, rules="my_code.py:mine").head.out_features == 5


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("my_code.py:Fixed", r"returns shape \(2, 7\) for two clouds; .* logits \(B, 10\): let it take num_classes"),
        ("my_code.py:Transposed", r"my_code\.py:Transposed fails on clouds \(2, 64, 3\)"),
        ("my_code.py:Nett", "did you mean Net"),
        ("other.py:Net", "there is no file other.py"),
        ("my_code.py", "your own is my_code.py:CLASS"),
        ("my_code.py:mine", "is a RuleSet; a class of networks, or a function"),
    ],
)
def test_networks_that_cannot_be_trained(place, model, said, capsys):
    assert main(["train", "--model", model, "--data", "digits", *SMALL]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_a_rule_set_is_needed(place, capsys):
    assert main(["audit", "my_code.py:Net", "--equivariant", "--rules", "my_code.py:Net"]) == 2
    assert "is a type; a RuleSet is needed" in capsys.readouterr().err
    assert main(["audit", "my_code.py:Net", "--equivariant", "--rules", "my_code.py:mine", "--rotations", "2"]) == 0


FOREIGN = ["os:system", "my_code.py:system", "my_code.py:nn.Linear", "{outside}/code.py:Net", "my_code:torch"]


@pytest.mark.parametrize("model", FOREIGN)
def test_weights_from_elsewhere_call_no_code_but_your_own(place, model, tmp_path_factory, run_folder):
    """A weights file is data: it must not name a function to call."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "code.py").write_text("raise SystemExit('this was run')")
    model = model.format(outside=outside)
    tensors, about = load_tensors(run_folder / "best.safetensors")
    about["config"] |= {"model": model, "options": {"command": "touch called"}}
    save_tensors(place / "weights.safetensors", tensors, about)
    (place / "config.json").write_text(json.dumps({"model": model}))
    for load in (lambda: load_run("weights.safetensors"), lambda: load_config("config.json")):
        with pytest.raises(InputError, match="not defined in a file below the current directory"):
            load()
    assert not Path("called").exists()


def test_own_code_may_be_named_by_a_file(place):
    for name in ("dgcnn", "my_code.py:Net", "my_code:Net", "my_code.py:mine"):
        check_named_by_file(name, "weights.safetensors")


def test_published_settings_hold_no_paths():
    kept = TrainConfig(model="/home/me/code.py:Net", rules="/home/me/rules.py:mine").without_folders()
    assert (kept["model"], kept["rules"]) == ("code.py:Net", "rules.py:mine")


def test_your_own_in_the_comparison(place, monkeypatch):
    monkeypatch.setenv("REQNN_DATA", str(write_data(place / "data")))
    monkeypatch.setitem(budgets.BUDGETS, "quick", TINY)
    words = ["--rules", "full", "my_code.py:mine", "--model", "my_code.py:Net", "--epochs", "1", "--budget", "quick"]
    assert experiments(["compare", *words]) == 0
    rows = json.loads(Path("results/compare.json").read_text())["rows"]
    assert [(row["model"], row["rules"]) for row in rows] == [("my_code.py:Net", "full"), ("my_code.py:Net", "my_code.py:mine")]
    assert all(run["upright"] == run["rotated"] for row in rows for run in row["runs"])
