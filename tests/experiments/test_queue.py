"""`python -m experiments.queue`: cells one after the other, stopped and continued."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tyro

from experiments.harness.trial import differing
from experiments.paper.budgets import config_of, get_budget
from experiments.paper.experiments import experiments
from experiments.queue.__main__ import Cell, load_cells
from reqnn.commands.train import Train

ROOT = Path(__file__).parents[2]
TINY = [
    *("--model", "pointnet", "--data", "digits", "--points", "24", "--limit", "80", "--batch", "8", "--optimizer", "muon"),
    *("--options", '{"width": 0.0625}', "--threads", "1", "--accelerator", "cpu", "--checkpoint-steps", "5"),
]


def cells(folder: Path, *epochs: int) -> list[str]:
    listed = [
        {"name": f"cell{index}", "purpose": "a test", "target": 50.0, "arguments": [*TINY, "--epochs", str(count)]}
        for index, count in enumerate(epochs)
    ]
    (folder / "queue.json").write_text(json.dumps(listed))
    files = ["--runs", str(folder / "runs"), "--cells", str(folder / "queue.json")]
    return [sys.executable, "-m", "experiments.queue", *files, "--nice", "0"]  # not slower than the tests beside it


def run(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_a_stopped_queue_continues_with_the_same_cell(tmp_path: Path) -> None:
    """The cell in the middle fails, and does not stop the last one."""
    command = cells(tmp_path, 6, 0, 1)  # no epochs: an error
    queue = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = tmp_path / "runs" / "cell0" / "state.safetensors"
    try:
        patience = time.monotonic() + 240
        while not state.exists() and queue.poll() is None and time.monotonic() < patience:
            time.sleep(0.01)
        assert "running there already" in run(command).stderr
        os.kill(queue.pid, signal.SIGTERM)
        assert queue.wait(120) == 130
    finally:
        queue.kill()
    status = run([*command, "--status"]).stdout.splitlines()
    assert [line.split()[0] for line in status] == ["begun", "waiting", "waiting"]
    done = run(command)
    assert done.returncode == 1
    assert "from step" in done.stdout
    assert "cell1 failed" in done.stderr
    assert done.stdout.rstrip().endswith("failed: cell1")
    assert run([*command, "--status"]).stdout.count("finished") == 2
    listed = json.loads((tmp_path / "queue.json").read_text())
    (tmp_path / "queue.json").write_text(json.dumps([listed[0], listed[2]]))
    assert run(command).stdout == "all cells are finished\n"


def test_a_cell_with_a_result_in_the_repository_is_finished(tmp_path: Path) -> None:
    """A file of its own, or its name among the runs of one."""
    (tmp_path / "one.json").write_text("{}")
    (tmp_path / "several.json").write_text(json.dumps({"runs": {"here": {}}}))
    expected = {
        "one.json": True,
        "none.json": False,
        "several.json#here": True,
        "several.json#other": False,
        "none.json#here": False,
    }
    for result, finished in expected.items():
        assert Cell("a", "", None, [], f"{tmp_path}/{result}").finished(tmp_path / "runs") is finished
    assert not Cell("a", "", None, []).finished(tmp_path / "runs")


def test_cells_of_table_4_have_the_settings_of_their_budget():
    budget = get_budget("wide")
    cells = {cell.name: cell.arguments for cell in load_cells(ROOT / "experiments/queue/queue.json")}
    for one in experiments():
        trained = tyro.cli(Train, args=cells[one.stem], default=Train.defaults(cells[one.stem]))
        assert not differing(trained.config, config_of(one, budget)), one.stem
