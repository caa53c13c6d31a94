"""Files and tables of a run: their shape, not their numbers."""

import json
from dataclasses import replace

import pytest

from experiments.__main__ import main
from experiments.bench.plot import draw, shown_size
from experiments.bench.report import left_out, markdown, tables
from experiments.bench.run import PARTS, cpu_name, results, run
from experiments.bench.settings import WHAT, Settings
from experiments.bench.variants import FUSED, ORIGINAL


@pytest.fixture(scope="module")
def finished(settings):
    """The results of all parts but memory, at tiny sizes."""
    several = replace(settings, points=(22, 32, 44), what=tuple(part for part in WHAT if part != "memory"))
    return list(run(several, lambda message: None))


def test_results_grow_part_by_part(finished):
    assert len(finished) == 5
    sizes = [len(found["records"]) for found in finished]
    assert sizes == sorted(sizes)
    assert set(PARTS) == set(WHAT)


def test_schema(finished):
    data = json.loads(json.dumps(finished[-1]))
    assert set(data) == {
        "settings", "meaning", "targets", "records", "cpu", "cores", "versions", "platform", "commit", "parts",
    }  # fmt: skip
    assert data["settings"]["seed"] == 0
    assert {"torch", "numba", "scipy", "reqnn", "python"} <= set(data["versions"])
    for record in data["records"]:
        assert record["what"] in WHAT
        assert {"seconds", "skipped"} <= set(record)
    for target in data["targets"]:
        assert set(target) == {"name", "relation", "asked", "value", "met"}
    kinds = [r["kind"] for r in data["records"] if r["what"] == "growth"]
    assert set(kinds) == {"operation", "network"}


def test_nothing_tells_whose_machine_it_was(finished):
    import getpass
    import platform
    from pathlib import Path

    text = json.dumps(finished[-1])
    for secret in (platform.node(), str(Path.home()), str(Path.cwd())):
        assert len(secret) < 3 or secret not in text
    assert getpass.getuser() == "root" or getpass.getuser() not in text


def test_tables_and_markdown(finished):
    titles = [table.name for table in tables(finished[-1])]
    assert titles == ["models", "rules", "limit", "kernels", "growth"]
    text = markdown(finished[-1], "bench.png")
    assert text.startswith("# Benchmark\n")
    assert "![" in text
    assert "## Time of networks" in text
    assert "no fused blocks, no kernels" in text
    assert "\n\n\n" not in text
    assert "Left out" not in text


def test_targets_and_what_was_left_out(timed):
    records = [timed(ORIGINAL, [3.0, 6.0]), timed(FUSED, [1.0, 2.0]), timed(ORIGINAL, [], batch=16)]
    found = results(Settings(), records)
    first = tables(found)[0]
    assert [str(cell) for cell in first.rows[0]] == [
        "dgcnn, inference, batch 4: original / fused REQNN",
        "3 [3, 3]",
        "at least 2.5",
        "yes",
    ]
    assert left_out(found) == ["dgcnn, 16 × 1024 points (original, inference): takes 99 s"]
    both = results(Settings(), [timed(ORIGINAL, []), timed(FUSED, [])])
    assert left_out(both) == ["dgcnn, 4 × 1024 points (original, inference; REQNN fused, inference): takes 99 s"]
    assert "takes 99 s" in markdown(found)


def test_memory_table():
    memory = {"what": "memory", "model": "dgcnn", "mode": "training step", "batch": 4, "points": 1024}
    records = [
        {**memory, "variant": ORIGINAL, "peak_bytes": 300_000_000, "saved_bytes": 100_000_000, "skipped": None},
        {**memory, "variant": FUSED, "peak_bytes": None, "saved_bytes": None, "skipped": "signal 9"},
    ]
    found = results(Settings(), records)
    (table,) = tables(found)
    assert [str(cell) for cell in table.rows[0]][4:] == ["300 (100) MB", "", "–"]
    assert left_out(found) == ["memory of dgcnn, 4 × 1024 points (REQNN fused, training step): signal 9"]


def test_picture(finished, tmp_path):
    path = draw(finished[-1], tmp_path / "deep" / "bench.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert draw({**finished[-1], "records": []}, tmp_path / "none.png") is None


def test_bars_show_the_size_that_is_asked_for(timed):
    sizes = [(4, 1024), (16, 1024), (16, 8192), (1, 256)]
    assert shown_size([timed(ORIGINAL, [1.0], batch=b, points=n) for b, n in sizes]) == (16, 1024)
    assert shown_size([timed(ORIGINAL, [1.0], batch=b, points=n) for b, n in [(1, 256), (2, 512)]]) == (2, 512)


def test_cpu_name():
    assert cpu_name()


def test_command(tmp_path, capsys):
    words = [
        "bench",
        "--what",
        "kernels",
        "--kernel-points",
        "40",
        "--repeats",
        "2",
        "--threads",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "Time of kernels" in shown.out
    assert "ball query, 4 × 40 points" in shown.err
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"bench.json", "bench.md"}
    assert json.loads((tmp_path / "out" / "bench.json").read_text())["settings"]["what"] == ["kernels"]


def test_parts_are_added(finished):
    before = finished[0]
    assert {record["what"] for record in before["records"]} == {"models", "growth"}
    settings = Settings(what=("kernels",), kernel_points=(40,), repeats=3, threads=1)
    (after,) = run(settings, lambda message: None, before)
    assert after["records"][: len(before["records"])] == before["records"]
    assert {record["what"] for record in after["records"]} == {"models", "growth", "kernels"}
    assert after["parts"]["models"] == before["parts"]["models"]
    assert after["parts"]["kernels"]["settings"]["repeats"] == 3
    assert "kernels 3 repeats" in markdown(after)
    assert ", 2 repeats, interleaved" in markdown(before)
    (again,) = run(settings, lambda message: None, after)
    assert len(again["records"]) == len(after["records"])


def test_command_refuses(tmp_path, capsys):
    assert main(["bench", "--add", "--out", str(tmp_path)]) == 2
    assert "leave --add out" in capsys.readouterr().err
    assert main(["bench", "--repeats", "0", "--out", str(tmp_path)]) == 2
    (tmp_path / "file").write_text("")
    assert main(["bench", "--out", str(tmp_path / "file" / "out")]) == 2
    assert "cannot be written" in capsys.readouterr().err
