"""One page for everything: self-contained HTML, and Markdown."""

import base64
import json
from html.parser import HTMLParser

import pytest

from experiments.harness.table import Cell, Table
from experiments.paper.page import Picture, find_pictures, to_html, to_markdown, write_page

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def tables():
    rows = [[Cell("a < b"), Cell("1", "1"), Cell("2", "3")]]
    return [Table("table1", "First & best", ["row", "x", "y"], rows, [], {}, ["run `python -m experiments paper all`"])]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "figure1.png").write_bytes(PIXEL)
    (tmp_path / "figure1.json").write_text(json.dumps({"title": "Figure 1: a pixel", "notes": ["it is small"]}))
    (tmp_path / "figure2.png").write_bytes(PIXEL)
    (tmp_path / "figure3.txt").write_text("no picture")
    return tmp_path


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[name] for name in ("src", "href") if name in given]
        self.ids |= {given["id"]} if "id" in given else set()
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_pictures_are_found_with_their_titles(folder):
    assert find_pictures(folder) == [
        Picture(folder / "figure1.png", "Figure 1: a pixel", ("it is small",)),
        Picture(folder / "figure2.png", "Figure 2"),
    ]
    assert find_pictures(folder / "none") == []


def test_html_needs_nothing_else(tables, folder):
    text = to_html(tables, find_pictures(folder))
    page = Page(text)
    assert page.open == []
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in page.links)
    assert page.ids == {"table1", "figure1", "figure2"}
    assert {link[1:] for link in page.links if link.startswith("#")} == page.ids
    assert "http" not in text
    assert "a &lt; b" in text
    assert "First &amp; best" in text
    assert "<td class=differs>2 ≠ 3</td>" in text
    assert "<code>python -m experiments paper all</code>" in text
    assert "1 of 2 values as the paper prints them" in text
    assert "it is small" in text


def test_markdown_has_one_title(tables, folder):
    text = to_markdown(tables, find_pictures(folder))
    assert [line for line in text.splitlines() if line.startswith("# ")] == [text.splitlines()[0]]
    assert "## First & best" in text
    assert "![Figure 1: a pixel](figure1.png)" in text


def test_both_are_written(tables, tmp_path):
    paths = write_page(tables, [], tmp_path / "new")
    assert [path.name for path in paths] == ["paper.html", "paper.md"]
    assert all(path.read_text(encoding="utf-8") for path in paths)
