"""How tables are shown and written, and what they say about where they come from."""

import io
import json
import subprocess

import pytest
from rich.console import Console

from experiments.harness.table import Cell, Table
from reqnn import provenance


@pytest.fixture
def table():
    rows = [[Cell("a|b"), Cell("1", "1"), Cell("2", "3")], [Cell("c"), Cell("x"), Cell("", "✓")]]
    return Table("small", "A small table", ["row", "first", "second"], rows, [{"row": "a"}], {"seed": 0}, ["a note"])


def test_differences(table):
    assert table.differences == ["a|b, second: 2 ≠ 3", "c, second:  ≠ ✓"]


def test_terminal(table):
    out = io.StringIO()
    table.print(Console(file=out, width=100))
    text = out.getvalue()
    assert "2 ≠ 3" in text
    assert "1 of 3 values as the paper prints them; 2 marked ≠" in text
    assert "a note" in text
    assert "\x1b" not in text


def test_colour_on_a_terminal_only(table, monkeypatch):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    out = io.StringIO()
    table.print(Console(file=out, force_terminal=True, color_system="standard"))
    assert "\x1b[1;31m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    table.print(Console(file=out, force_terminal=True))
    assert "\x1b[1;31m" not in out.getvalue()


def test_files(table, tmp_path):
    markdown, data = table.write(tmp_path / "new" / "folder")
    lines = markdown.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# A small table"
    assert "| a\\|b | 1 | **2 ≠ 3** |" in lines
    content = json.loads(data.read_text(encoding="utf-8"))
    assert content["rows"] == [{"row": "a"}]
    assert content["settings"] == {"seed": 0}
    assert content["versions"].keys() >= {"reqnn", "python", "torch"}


def test_commit_of_a_checkout_only(monkeypatch):
    def no_git(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    assert provenance.git_commit() is None


def test_commit_is_a_commit():
    commit = provenance.git_commit()
    if commit is not None:
        assert len(commit.removesuffix("-dirty")) == 40
