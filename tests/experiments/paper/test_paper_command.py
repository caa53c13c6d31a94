"""`python -m experiments paper table4`, `table5` and `all` from the outside."""

import shutil
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.harness.table import Cell, Table
from experiments.paper import budgets, table5
from experiments.paper import contents as paper
from experiments.paper.figure import Figure
from written_shapes import TINY, write_data

KEY = "modelnet40/dgcnn/reqnn"
PICTURE = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "answers.png"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("REQNN_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setitem(budgets.BUDGETS, "quick", TINY)
    monkeypatch.setattr(table5, "size_and_time", lambda trial: (1234, 0.002))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_cells_are_trained_and_the_table_is_shown(place, capsys):
    assert main(["paper", "table4", "--budget", "quick", "--only", KEY, "--out", "results"]) == 0
    shown = capsys.readouterr().out
    assert "DGCNN on ModelNet40: REQNN" in shown
    assert "not measured yet (17 of 18)" in shown
    assert (place / "results" / "table4.md").exists()
    assert (place / "results" / "table4" / "quick" / "modelnet40-dgcnn-reqnn.json").exists()
    assert (place / "runs" / "table4" / "quick" / "modelnet40-dgcnn-reqnn").is_dir()
    # what is there is shown again without training, and by table 5
    for table in ("table4", "table5"):
        assert main(["paper", table]) == 0
        assert "(budget quick)" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["modelnet40/kd_network/reqnn", "modelnet40/qe_capsule/original"])
def test_rows_of_table5_are_trained(place, key, capsys):
    assert main(["paper", "table5", "--budget", "quick", "--only", key, "--out", "results"]) == 0
    assert "not measured yet (16 of 17)" in capsys.readouterr().out
    assert (place / "results" / "table5" / "quick" / f"{key.replace('/', '-')}.json").exists()


def test_time_that_is_up_is_said(place, capsys):
    assert main(["paper", "table4", "--budget", "quick", "--max-minutes", "0"]) == 0
    assert "the same command continues" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table4", "--only", KEY], "--budget NAME"),
        (["table1", "--max-minutes", "3"], "--budget NAME"),
        (["table4", "--budget", "quick", "--only", "modelnet40/dgcn"], "names no cell of Table 4"),
    ],
)
def test_mistakes_are_explained(place, words, message, capsys):
    assert main(["paper", *words]) == 2
    assert message in capsys.readouterr().err


def test_failed_cells_end_with_2_and_the_reason(place, monkeypatch, capsys):
    monkeypatch.setenv("REQNN_DATA", str(place / "nothing"))
    assert main(["paper", "table4", "--budget", "quick", "--only", KEY]) == 2
    assert f"error: {KEY}: modelnet40 is not on this machine" in capsys.readouterr().err


def test_everything_comes_on_one_page(place, monkeypatch):
    fast = Table("table1", "Table 1", ["a"], [[Cell("x")]], [])
    for name in ("table1", "table2", "table3"):
        monkeypatch.setattr(paper, name, lambda: fast)
    for name in ("figure1", "figure2"):
        drawn = Figure(name, f"A drawn {name}", lambda path: Path(shutil.copyfile(PICTURE, path)), [])
        monkeypatch.setattr(paper, name, lambda runs, drawn=drawn: drawn)
    assert main(["paper", "all", "--out", "results"]) == 0
    page = (place / "results" / "paper.html").read_text(encoding="utf-8")
    for part in ("table1", "table4", "table5", "figure1", "figure2"):
        assert f'id="{part}"' in page
    assert "A drawn figure2" in page
    assert "Table 5" in (place / "results" / "paper.md").read_text(encoding="utf-8")
