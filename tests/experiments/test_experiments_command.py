"""`python -m experiments` lists what there is; `reqnn paper` and its like hand over to it, or say where it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import EXPERIMENTS, main
from reqnn import cli
from reqnn.commands import experiments
from reqnn.models import registry

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_help_with_an_example(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"python -m experiments {name}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize("words", [["--help"], ["paper", "--help"]])
def test_help_from_a_clone_is_fast(words):
    command = [sys.executable, "-X", "importtime", "-m", "experiments", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"torch", "sklearn", "matplotlib", "scipy"}
    assert all(name in done.stdout for name in (EXPERIMENTS if len(words) == 1 else ["table4"]))


def test_the_command_of_the_package_hands_over(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "reqnn.cli", "paper", "table3", "--out", "here"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "table3.md").exists()


@pytest.mark.parametrize(
    ("words", "name"), [(["bench", "--quick"], "bench"), (["demo"], "demo"), (["data", "make", "3d-mnist"], "data make")]
)
def test_without_the_folder_one_line_says_where_it_is(words, name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "ROOT", tmp_path)
    assert cli.main(words) == 2
    where = f"run it from a clone of its repository: python -m experiments {name.replace(' ', '-')}"
    assert capsys.readouterr().err == f"error: reqnn {name} is not part of the package; {where}\n"


def test_commands_of_the_package_know_the_networks_of_experiments(monkeypatch, capsys):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("autoencoder", "hierarchical_edgeconv", "dgcnn"))


def test_all_that_moved_is_there():
    assert set(experiments.MOVED) <= set(EXPERIMENTS)
