"""`reqnn predict` from the outside; on real meshes where they are."""

import csv
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import trimesh
from rotated_solids import rotations, solids

from reqnn.cli import main
from reqnn.commands.predict import DEFAULT
from reqnn.pretrained import find_files, list_weights, load

classify_module = importlib.import_module("reqnn.pretrained.classify")  # the package has a function of that name
BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"
MESHES = Path(os.environ.get("REQNN_DATA") or BESIDE) / "meshes"

SLOW = """
import importlib, sys, time
module = importlib.import_module("reqnn.pretrained.classify")
module.BATCH = 1
read = module.read_shape
module.read_shape = lambda *given: (time.sleep(0.1), read(*given))[1]
from reqnn.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""`reqnn` with a tenth of a second more per file."""


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "objects"
    folder.mkdir()
    for name, (vertices, faces) in solids().items():
        trimesh.Trimesh(vertices, faces, process=False).export(folder / f"{name}.ply")
    return folder


def test_text(files, run_folder, capsys):
    assert main(["predict", str(files), "--weights", str(run_folder), "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [Path(line.partition(":")[0]).name for line in lines] == ["ball.ply", "box.ply", "ring.ply"]
    assert all(line.count(" %") == 3 for line in lines)


def test_json(files, run_folder, tmp_path, capsys):
    words = ["predict", str(files / "box.ply"), "--weights", str(run_folder), "--points", "64", "--json"]
    assert main([*words, "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files"][0]["points"] == 64
    assert len(found["files"][0]["top"]) == 5
    assert main([*words, str(tmp_path / "new" / "answers.json")]) == 0
    assert json.loads((tmp_path / "new" / "answers.json").read_text()) == found
    assert "box.ply: " in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--rotations", "--turned"])
def test_rotations(files, run_folder, option, capsys):
    """A REQNN keeps its answers; the count is of real copies, not of nothing."""
    words = ["predict", str(files), "--weights", str(run_folder), option, "4"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith("; the same in all 4 orientations") for line in lines[:3])
    assert lines[3].startswith("3 of 3 files keep their answer in every orientation; largest change of a probability ")
    assert main([*words, "--json", "-"]) == 0
    rotated = [answer["rotated"] for answer in json.loads(capsys.readouterr().out)["files"]]
    assert all(one["copies"] == one["same"] == 4 for one in rotated)
    assert 0 < max(one["largest_change"] for one in rotated) < 0.02


def test_rotations_show_where_an_answer_changes(files, run_folder, monkeypatch):
    """The negative control: a network that answers by the height of the first point."""
    network = load(run_folder)

    def by_height(net, points, batch):
        return torch.nn.functional.one_hot((points[:, 0, 2] > 0).long(), len(net.classes)).float()

    monkeypatch.setattr(classify_module, "predict", by_height)
    found = [one["rotated"] for one in classify_module.classify(network, find_files([files]), rotations=16)]
    assert all(0 < one["same"] < 16 for one in found)


def test_weights_by_name(files, ship, capsys):
    ship(DEFAULT)
    assert main(["predict", str(files / "box.ply")]) == 0
    assert main(["predict", str(files / "box.ply"), "--weights", "unknown"]) == 2
    assert f"pretrained weights: {DEFAULT}" in capsys.readouterr().err


def test_weights_that_ship_are_listed(shipped, ship, capsys):
    path = ship("dgcnn-digits")
    (shipped / "bare.safetensors").write_bytes(path.read_bytes())
    assert main(["predict", "--list"]) == 0
    bare, line = capsys.readouterr().out.splitlines()
    assert bare == "bare"
    assert line.startswith("dgcnn-digits: dgcnn by the rules paper, 10 classes of digits, ")
    assert f" {100 * load(path).card['test']['rotated']:.2f} % of the test shapes" in line


def test_what_cannot_be_read_is_reported_and_the_rest_is_classified(files, run_folder, capsys):
    (files / "broken.ply").write_text("ply\n")
    assert main(["predict", str(files), "--weights", str(run_folder)]) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert "broken.ply" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "name at least one file"), (["x.ply", "--top", "0"], "top is 0"), (["x.ply", "--turned", "-1"], "rotations is -1")],
)
def test_mistakes_are_explained(words, message, run_folder, capsys):
    assert main(["predict", *words, "--weights", str(run_folder)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("weights", ["run", *(name for name in list_weights() if ".ordinary." not in name)])
def test_real_meshes_keep_their_answer(weights, run_folder, tmp_path, capsys):
    """A mesh of ModelNet40 each of eight classes, in six orientations: one answer."""
    if not MESHES.is_dir():
        pytest.skip(f"the real meshes are not here: set REQNN_DATA to their folder (looked at {MESHES})")
    chosen = sorted(MESHES.glob("*/*.ply"))[::15]
    for path in chosen:
        mesh = trimesh.load(path, process=False)
        for i, rotation in enumerate(rotations(6)):
            rotated = trimesh.Trimesh(mesh.vertices @ rotation.T, mesh.faces, process=False)
            rotated.export(tmp_path / f"{path.stem}-{i}.off", digits=17)  # a PLY would round to float32
    name = str(run_folder) if weights == "run" else weights
    assert main(["predict", str(tmp_path), "--weights", name, "--json", "-"]) == 0
    answers = json.loads(capsys.readouterr().out)["files"]
    assert len(answers) == 6 * len(chosen)
    first = {}
    for answer in answers:
        shape, best = Path(answer["file"]).stem.rpartition("-")[0], answer["top"][0]
        expected = first.setdefault(shape, best)
        assert best["class"] == expected["class"]
        assert best["probability"] == pytest.approx(expected["probability"], abs=1e-6)


def test_answers_line_by_line(files, run_folder, tmp_path, capsys):
    for suffix in ("jsonl", "csv"):
        out = tmp_path / f"answers.{suffix}"
        assert main(["predict", str(files), "--weights", str(run_folder), "--top", "2", "--out", str(out)]) == 0
        assert "3 classified" in capsys.readouterr().err
        text = out.read_text()
        rows = list(csv.DictReader(text.splitlines())) if suffix == "csv" else list(map(json.loads, text.splitlines()))
        assert [Path(row["file"]).name for row in rows] == ["ball.ply", "box.ply", "ring.ply"]
        assert {row["weights"] for row in rows} == {str(run_folder)}
        assert not out.with_name(f"{out.name}.part").exists()
    assert json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[1])["top"][1]["class"] == rows[1]["class_2"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_interrupted_run_is_resumed(suffix, files, run_folder, tmp_path, monkeypatch, capsys):
    words = ["predict", str(files), "--weights", str(run_folder), "--out", str(tmp_path / f"answers.{suffix}")]
    monkeypatch.setattr(classify_module, "BATCH", 1)
    assert main(words) == 0
    complete = (tmp_path / f"answers.{suffix}").read_bytes()
    read, seen = classify_module.read_shape, []

    def interrupted(path, *more):
        seen.append(path.name)
        if path.name == "ring.ply" and seen.count("ring.ply") == 1:
            raise KeyboardInterrupt
        return read(path, *more)

    monkeypatch.setattr(classify_module, "read_shape", interrupted)
    assert main(words) == 130
    assert (tmp_path / f"answers.{suffix}").read_bytes() == complete  # the run before is not lost
    part = tmp_path / f"answers.{suffix}.part"
    part.write_bytes(part.read_bytes() + b'{"file": "cut o')
    assert main([*words, "--seed", "1", "--resume"]) == 2
    assert "holds answers with" in capsys.readouterr().err
    seen[:] = ["ring.ply"]
    assert main([*words, "--resume"]) == 0
    assert seen[1:] == ["ring.ply"]
    assert "1 classified, 2 classified before" in capsys.readouterr().err
    assert (tmp_path / f"answers.{suffix}").read_bytes() == complete
    assert main([*words[:-2], "--resume"]) == 2


def test_one_file_does_not_end_the_run(files, run_folder, tmp_path, monkeypatch, capsys):
    """An exception that nobody foresaw, a name that is not UTF-8, a dead link, other files."""
    odd = os.fsencode(files) + b"/caf\xe9.ply"
    Path(os.fsdecode(odd)).write_bytes((files / "box.ply").read_bytes())
    (files / "dead.ply").symlink_to("nowhere.ply")
    (files / "notes.docx").write_text("?")
    read = classify_module.read_shape

    def failing(path, *more):
        if path.name == "ball.ply":
            raise ZeroDivisionError("unforeseen")
        return read(path, *more)

    monkeypatch.setattr(classify_module, "read_shape", failing)
    for name in ("answers.json", "answers.csv", "answers.jsonl"):
        assert main(["predict", str(files), "--weights", str(run_folder), "--json", str(tmp_path / name)]) == 1
        shown = capsys.readouterr()
        assert "caf\\udce9.ply: " in shown.out
        assert "ball.ply: ZeroDivisionError: unforeseen" in shown.err
        assert "dead.ply is a link to nowhere.ply" in shown.err
        assert "3 classified, 2 failed, 1 skipped (no reader for .docx)" in shown.err
    found = {Path(one["file"]).name: one for one in json.loads((tmp_path / "answers.json").read_text())["files"]}
    assert set(found) == {"ball.ply", "box.ply", "ring.ply", "caf\\udce9.ply", "dead.ply", "notes.docx"}
    assert found["caf\\udce9.ply"]["top"] == found["box.ply"]["top"]


def test_nothing_in_a_folder_is_passed_over_silently(files, monkeypatch):
    (files / "closed").mkdir()
    (files / "folder.ply").mkdir()
    (files / "linked").symlink_to("folder.ply")
    os.mkfifo(files / "pipe.ply")
    monkeypatch.setattr(classify_module.os, "access", lambda path, mode: path.name != "closed")
    found = {
        Path(one["file"]).name: one.get("error", "") + one.get("skipped", "") for one in classify_module.other_files([files])
    }
    assert set(found) == {"closed", "linked", "pipe.ply"}
    assert "cannot be opened; check its permissions" in found["closed"]
    assert "not followed: name them" in found["linked"]
    assert found["pipe.ply"] == "no regular files"
    assert [path.name for path in find_files([files])] == ["ball.ply", "box.ply", "ring.ply"]


def test_a_batch_that_fails_is_taken_apart(files, run_folder, monkeypatch):
    network, predict, boxes = load(run_folder), classify_module.predict, []

    def failing(net, points, batch):
        if len(points) > 1 or not boxes:
            boxes.append(len(points))
            raise RuntimeError("too much")
        return predict(net, points, batch)

    monkeypatch.setattr(classify_module, "predict", failing)
    answers = list(classify_module.classify(network, find_files([files])))
    assert boxes == [3]
    assert all("top" in answer for answer in answers)


def test_a_killed_run_is_resumed(files, run_folder, tmp_path):
    """SIGKILL of a real process, twice: first while it answers, then again after it has taken over the answers of before."""
    for number in range(60):
        (files / f"box_{number:02}.ply").write_bytes((files / "box.ply").read_bytes())
    out, count = tmp_path / "answers.jsonl", 63
    part = out.with_name("answers.jsonl.part")
    words = [sys.executable, "-c", SLOW, "predict", str(files), "--weights", str(run_folder), "--out", str(out)]
    kept: set[str] = set()
    for _ in range(2):
        with subprocess.Popen([*words, "--resume"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            while (lines := part.read_text().count("\n") if part.exists() else 0) < len(kept) + 3:
                assert process.poll() is None, "it ended before it was killed"
                time.sleep(0.01)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert lines < count
        assert not out.exists()
        found = {json.loads(line)["file"] for line in part.read_text().splitlines(keepends=True) if line.endswith("\n")}
        assert kept < found
        kept = found
    assert main([*words[3:], "--resume"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(Path(row["file"]).name for row in rows) == sorted(path.name for path in files.iterdir())
    assert not part.exists()


def test_links_in_the_places_of_files_to_write_are_not_followed(files, run_folder, tmp_path):
    """Names that a run before has left or announced, planted as links to a file of the user: it stays as it is."""
    victim = tmp_path / "victim"
    for name in ("answers.jsonl", "answers.csv", "answers.json"):
        for planted in (name, f"{name}.part"):
            victim.write_text("mine")
            folder = tmp_path / f"of_{planted}"
            folder.mkdir()
            (folder / planted).symlink_to(victim)
            assert main(["predict", str(files), "--weights", str(run_folder), "--out", str(folder / name)]) == 0
            assert victim.read_text() == "mine", planted
            assert not (folder / name).is_symlink()
            assert "box.ply" in (folder / name).read_text()
