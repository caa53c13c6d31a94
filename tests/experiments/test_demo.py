"""`python -m experiments demo` with tiny networks: what it writes, prints and returns, and that it trains nothing twice."""

import contextlib
import io
import json

import pytest
import torch

from experiments import demo
from reqnn.commands.base import NOT_OK, OK
from reqnn.data.scanned import COPIES

SMALL = {
    "SETTINGS": {
        **demo.SETTINGS,
        "options": {"width": 0.0625, "k": 4, "sample": 16, "dropout": 0.0},
        "points": 24,
        "sampled_from": 32,
        "epochs": 1,
        "threads": 1,
    },
    "COPIES": 2,
    "ROUNDS": 1,
    "AUDITED": 2,
    "ROTATIONS": 1,
    "PERMUTATIONS": 1,
    "SHOWN": ("hammer",),
    "FRONT": ("teapot",),
}


@pytest.fixture(scope="module")
def small():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REQNN_DATA", raising=False)
        patch.setitem(COPIES, "train", 4)
        patch.setitem(COPIES, "test", 1)
        for name, value in SMALL.items():
            patch.setattr(demo, name, value)
        yield patch
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def shown(small, tmp_path_factory):
    """The folder of a demo, and what it printed."""
    folder, printed = tmp_path_factory.mktemp("demo") / "demo", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert demo.Demo(out=str(folder)).run() == OK
    return folder, printed.getvalue()


def test_rows(shown):
    folder, _ = shown
    rows = json.loads((folder / "demo.json").read_text())["rows"]
    assert [row["network"] for row in rows] == list(demo.NETWORKS)
    for row in rows[:2]:
        assert not row["audit_ok"]
        assert row["rotation_error"] > 0.1
    for row in rows[2:]:
        assert row["audit_ok"]
        assert row["rotation_error"] <= 1e-9
        assert abs(row["upright"] - row["rotated"]) < 0.01
        assert row["kept"] > 0.98
    assert rows[0]["relative_time"] == 1
    assert all(row["milliseconds"] > 0 and 0 <= row["cut"] <= 1 for row in rows)


def test_table_audits_and_next_commands(shown):
    folder, printed = shown
    markdown = (folder / "demo.md").read_text()
    for name in demo.NETWORKS:
        assert name in printed
        assert f"| {name} |" in markdown
    assert printed.count("the audit fails") == 2
    assert printed.count("the audit passes") == 2
    assert printed.count("reqnn ", printed.index("What next")) == 3
    assert f"reqnn eval {folder}/runs/dgcnn {folder}/runs/reqnn-full" in printed


def test_pictures(shown):
    folder, _ = shown
    for picture in ("front.png", "answers.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_a_run_in_the_folder_is_reused(shown):
    folder, _ = shown
    weights = folder / "runs" / "dgcnn" / "best.safetensors"
    before = weights.stat().st_mtime_ns
    with contextlib.redirect_stdout(io.StringIO()):
        demo._train(demo.ORIGINAL, folder)
    assert weights.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("network", "change", "code"),
    [
        (demo.FULL, {"audit_ok": False}, NOT_OK),
        (demo.PAPER, {"upright": 0.9, "rotated": 0.8}, NOT_OK),
        (demo.ORIGINAL, {"audit_ok": False, "rotated": 0.0}, OK),  # nobody expects it to pass
    ],
)
def test_exit_code(shown, network, change, code):
    folder, _ = shown
    rows = json.loads((folder / "demo.json").read_text())["rows"]
    assert demo.exit_code(rows) == OK
    assert demo.exit_code([{**row, **change} if row["network"] == network else row for row in rows]) == code
