import json
import subprocess
import sys

import pytest
from written_data import box

from reqnn.cli import main
from reqnn.data.sets import SETS


def test_list_says_what_is_here(capsys, pointnet_folder, tmp_path):
    pointnet_folder.rename(tmp_path / "modelnet40_ply_hdf5_2048")
    assert main(["data", "list", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in SETS)
    assert "modelnet40_ply_hdf5_2048" in shown
    assert "not here" in shown
    assert "in the package" in shown


def test_info_of_a_folder(capsys, pointnet_folder):
    assert main(["data", "info", str(pointnet_folder), "--points", "16"]) == 0
    shown = capsys.readouterr().out
    for words in ("chair", "lamp", "clouds", "vertical axis", "duplicates of another cloud"):
        assert words in shown


def test_info_as_json(capsys, tmp_path):
    for i in range(6):
        (tmp_path / "set" / "box").mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / "box" / f"{i}.off").write_text(box(1 + i // 2))
    assert main(["data", "info", str(tmp_path / "set"), "--split", "all", "--points", "32", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    (split,) = found["splits"]
    assert split["clouds"] == 6
    assert split["duplicates"] == 3
    assert split["up"] == "z"
    assert split["normals"] is True
    assert found["shared"] is None


def test_info_finds_what_two_splits_share(capsys, tmp_path):
    for split in ("train", "test"):
        (tmp_path / "set" / split / "box").mkdir(parents=True)
        for i in range(3):
            (tmp_path / "set" / split / "box" / f"{i}.off").write_text(box(1 + i + (split == "test")))
    assert main(["data", "info", str(tmp_path / "set"), "--points", "32"]) == 0
    assert "2 clouds of 'test' are also in 'train'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "modelnet41"], "neither a data set nor a path"),
        (["info", "modelnet40"], "what to get"),
        (
            ["download", "modelnet40"],
            "manually (no verified checksum). ModelNet40 is published for academic research at https://modelnet",
        ),
        (["download", "digits"], "nothing to download"),
        (["download", "cifar"], "NAME is 'cifar'; it is one of mnist, digits"),
    ],
)
def test_errors_without_tracebacks(capsys, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", *words]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("words", [["--debug", "info", "nothing"], ["info", "nothing", "--debug"]])
def test_debug_on_either_side(words):
    with pytest.raises(ValueError, match="neither a data set"):
        main(["data", *words])


def test_help_needs_no_heavy_imports():
    code = """
import sys
from reqnn.cli import main
try:
    main(["data", "info", "--help"])
except SystemExit:
    pass
heavy = {"torch", "h5py", "trimesh", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "A name from `reqnn data list`" in done.stdout
