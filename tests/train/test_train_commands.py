"""`reqnn train` and `reqnn eval` from the outside."""

import ast
import inspect
import json
import subprocess
import sys
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from reqnn.cli import main, parse
from reqnn.commands.base import Command
from reqnn.commands.eval import Eval
from reqnn.commands.train import Train
from reqnn.data.dataset import PointClouds
from reqnn.train import TrainConfig, fit


def test_help_needs_no_torch() -> None:
    code = "import sys, reqnn.cli as c\ntry: c.parse(sys.argv[1:])\nexcept SystemExit: assert 'torch' not in sys.modules"
    for command in ("train", "eval"):
        done = subprocess.run([sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert f"reqnn {command}" in done.stdout


def config(*arguments: str) -> dict:
    command = parse(["train", *arguments])
    assert isinstance(command, Train)
    return command.config.to_dict()


def test_flags_override_the_preset_also_with_its_defaults() -> None:
    assert config()["lr"] == 3e-3
    assert config("--preset", "paper", "--model", "pointconv")["lr"] == 0.01
    assert config("--preset=paper", "--model=pointnet2")["optimizer"] == "adam"
    assert config("--preset", "paper", "--lr", "0.003")["lr"] == 0.003
    assert config("--lr", "0.1", "--optimizer", "sgd")["lr"] == 0.1
    assert config("--options", '{"k": 5}')["options"] == {"k": 5}
    assert config("--rules", "full")["rule_options"] == {"unit": "pool"}
    assert config("--rules=full", "--rule-options", "{}")["rule_options"] == {}
    assert "sample" not in config("--points", "200")["options"]


@pytest.mark.parametrize("stored", [True, False])
def test_a_run_goes_on_by_the_same_command_and_by_the_folder_alone(stored: bool, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(TrainConfig(equivariant=stored, clip=2.0, lr=0.5).to_json())
    where = ["--resume", "--out", str(tmp_path)]
    assert (config(*where)["equivariant"], config(*where)["lr"]) == (stored, 0.5)
    again = config("--equivariant", "--clip", "2.0", "--lr", "0.5", *where)
    assert (again["equivariant"], again["clip"], again["lr"]) == (True, 2.0, 0.5)


def test_a_preset_shows_its_settings_in_the_help(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        parse(["train", "--preset", "paper", "--model", "dgcnn", "--help"])
    assert "(default: 400)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--epochs", "0"], "epochs is 0"),
        (["train", "--data", "nowhere"], "nowhere"),
        (["train", "--rules", "full", "--out", "{tmp}"], "add --equivariant"),
        (["train", "--data", "digits", "--model", "dgcn", "--out", "{tmp}"], "did you mean dgcnn"),
        (["train", "--data", "digits", "--options", '{"kk": 3}', "--out", "{tmp}"], "kk"),
        (["train", "--resume", "--out", "{broken}"], "cannot be read"),
        (["eval"], "name at least one run"),
        (["eval", "{tmp}"], "give a run's folder or a weights file"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    places = {"{tmp}": str(tmp_path / "run"), "{broken}": str(broken)}
    assert main([places.get(word, word) for word in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory, clouds: PointClouds, held_out: PointClouds) -> list[Path]:
    """An original and its REQNN."""
    from reqnn.train import preset

    folders = []
    for equivariant in (False, True):
        folder = tmp_path_factory.mktemp("eval") / "run"
        small = {"points": 24, "epochs": 1, "batch": 16, "options": {"width": 0.0625, "k": 4}, "threads": 1}
        fit(preset("quick", "dgcnn", equivariant=equivariant, out=str(folder), **small), clouds, held_out, quiet=True)
        folders.append(folder)
    return folders


def test_eval_prints_writes_and_draws(two_runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "out"
    words = ["eval", *map(str, two_runs), "--protocol", "NR", "AR", "--limit", "12", "--copies", "3", "--angles", "3"]
    assert main([*words, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "REQNN of dgcnn" in printed
    assert "accuracy by class" in printed
    assert sorted(path.name for path in out.iterdir()) == [
        *("accuracy_by_angle.png", "confusion-1-AR.png", "confusion-1-NR.png", "confusion-2-AR.png", "confusion-2-NR.png"),
        "evaluation.json",
    ]
    report = json.loads((out / "evaluation.json").read_text())
    assert [run["run"] for run in report["runs"]] == ["dgcnn", "REQNN of dgcnn"]
    turned = report["runs"][1]["results"][1]
    assert (turned["protocol"], turned["copies"], turned["shapes"], turned["inconsistent"]) == ("AR", 3, 12, 0.0)
    assert report["angles"] == [0, 90, 180]
    assert len(set(report["accuracy_by_angle"]["REQNN of dgcnn"])) == 1


def test_eval_takes_a_weights_file_and_gives_json(two_runs: list[Path], capsys: pytest.CaptureFixture) -> None:
    words = ["eval", str(two_runs[1] / "last.safetensors"), "--protocol", "NR", "--limit", "5", "--angles", "0", "--json", "-"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"][0]["shapes"] == 5
    assert (two_runs[1] / "evaluation" / "evaluation.json").exists()


def test_without_a_clone_eval_draws_nothing(
    two_runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reqnn.commands.experiments.ROOT", tmp_path)
    words = ["eval", str(two_runs[0]), "--protocol", "NR", "--limit", "5", "--angles", "0", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert "class mean" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["evaluation.json"]


def test_eval_refuses_a_checkpoint_and_other_classes(
    two_runs: list[Path], capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, held_out: PointClouds
) -> None:
    from dataclasses import replace

    assert main(["eval", str(two_runs[1] / "state.safetensors")]) == 2
    assert "is a checkpoint for --resume" in capsys.readouterr().err
    others = replace(held_out, classes=tuple("abcdefghij"))
    monkeypatch.setattr("reqnn.data.load", lambda *args, **kwargs: others)
    assert main(["eval", str(two_runs[1])]) == 2
    assert "classes that digits does not have" in capsys.readouterr().err


def test_every_option_of_eval_is_explained() -> None:
    """The string below a field is its help on the command line."""
    body = ast.parse(inspect.getsource(Eval)).body[0].body  # type: ignore[attr-defined]
    explained = {a.target.id for a, b in pairwise(body) if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr)}
    assert explained == {item.name for item in fields(Eval)} - {item.name for item in fields(Command)}
