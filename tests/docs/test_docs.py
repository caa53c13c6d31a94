"""The docs are true: Python blocks run, relative links lead somewhere, the map of folders is that of the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
RUN = (
    "index",
    "tutorial",
    "custom_networks",
    "add_a_rule",
    "rule_sets",
    "align",
    "scale",
)  # their blocks need no data and no file
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page):
    """Return the Python blocks of a page, each at the line that it has there."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in BLOCK.finditer(text)]


@pytest.mark.parametrize("name", RUN)
def test_python_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / f"{name}.md"
    assert blocks(page)
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_compile_and_links_lead_somewhere(page):
    for block in blocks(page):
        compile(block, str(page), "exec")
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target = link.partition("#")[0]
        assert re.match(r"https?://", link) or not target or (page.parent / target).exists(), link


def test_the_map_of_folders_is_that_of_the_tree():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package, beside = text.split("## Beside it")
    for base, part in ((ROOT / "src" / "reqnn", package), (ROOT, beside)):
        named = re.findall(r"^\| `([\w/.]+)` \|", part, re.MULTILINE)
        assert len(named) > 4
        assert [name for name in named if not (base / name).exists()] == []
