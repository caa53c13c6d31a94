"""`python -m experiments networks`: a network of each kind, revised and audited."""

import json
from pathlib import Path

from experiments.__main__ import main
from experiments.networks.command import CONSTANT, ORIGINAL, RULES, TOLERANCE, page, table
from experiments.networks.kinds import KINDS

ROOT = Path(__file__).parents[2]


def relative(record):
    return record["rotation_error"] / record["spread"]


def test_a_kind_and_a_refusal(tmp_path):
    arguments = ["networks", "--kinds", "3D-GCN", "black", "--rotations", "2"]
    assert main([*arguments, "--out", str(tmp_path), "--page", str(tmp_path / "networks.md")]) == 0
    records = json.loads((tmp_path / "networks.json").read_text())["rows"]
    assert [record["rules"] for record in records] == [ORIGINAL, *RULES] * 2
    directions, box = records[:5], records[5:]
    assert relative(directions[0]) > 1e-3  # the original
    assert all(relative(record) < TOLERANCE for record in [*directions[1:], box[-1]])
    assert all("no Python code" in record["refused"] for record in box[1:4])
    written = (tmp_path / "networks.md").read_text()
    assert "reqnn.revise(model, points, rules='full', coordinates='auto')" in written
    assert "- black box (TorchScript), `full`: a TorchScript module has no Python code left" in written


def test_the_page_in_the_docs_shows_all_kinds_and_what_was_measured():
    records = json.loads((ROOT / "results" / "networks.json").read_text())["rows"]
    assert list(dict.fromkeys(record["kind"] for record in records)) == [kind.title for kind in KINDS]
    body, _, _ = page(table(records), records).rpartition("<sub>")
    assert (ROOT / "docs" / "networks.md").read_text().startswith(body)
    originals = [record for record in records if record["rules"] == ORIGINAL]
    assert all(relative(record) > 1e-2 for record in originals)
    assert all(relative(r) < 1e-8 for r in records if r["rules"] != ORIGINAL and r.get("spread", 0) > CONSTANT)
