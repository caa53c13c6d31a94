"""All tables and figures on one page: self-contained HTML, and Markdown."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from experiments.harness import files
from experiments.harness.table import Table
from reqnn.provenance import provenance

TITLE = "3D-Rotation-Equivariant Quaternion Neural Networks: tables and figures, measured"
TYPES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto;
       padding: 0 1em; color: #1c1c1c; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2.5em }
nav a { margin-right: 1em } a { color: #1f5fa8 }
div.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25em .7em; text-align: right; border-bottom: 1px solid #ddd; vertical-align: top }
th { border-bottom: 2px solid #888 } th:first-child, td:first-child { text-align: left }
td.differs { font-weight: bold; color: #b00020 }
ul { color: #444; font-size: .9em } code { background: #f3f3f3; padding: 0 .2em } img { max-width: 100% }
footer { color: #777; font-size: .8em }
"""


@dataclass(frozen=True)
class Picture:
    """A figure as it is on disk: the picture, and the title and notes of the JSON file beside it."""

    path: Path
    title: str
    notes: tuple[str, ...] = ()


def find_pictures(folder: str | Path) -> list[Picture]:
    """The figures in a folder: `figure1.png` and so on, with what `figure1.json` says about them."""
    found: dict[str, Picture] = {}
    for path in sorted(Path(folder).glob("figure*")):
        if path.suffix in TYPES and path.stem not in found:
            beside = path.with_suffix(".json")
            about = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
            title = about.get("title") or path.stem.replace("figure", "Figure ")
            found[path.stem] = Picture(path, title, tuple(about.get("notes", ())))
    return list(found.values())


def write_page(tables: Sequence[Table], pictures: Sequence[Picture], folder: str | Path) -> list[Path]:
    """Write paper.html and paper.md to a folder."""
    pages = {"paper.html": to_html(tables, pictures), "paper.md": to_markdown(tables, pictures)}
    return [files.write_page(Path(folder) / name, text) for name, text in pages.items()]


def to_html(tables: Sequence[Table], pictures: Sequence[Picture] = ()) -> str:
    """The page as HTML, pictures and style within it."""
    links = [(table.name, table.name.capitalize()) for table in tables]
    links += [(picture.path.stem, picture.path.stem.capitalize()) for picture in pictures]
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(TITLE)}</title>',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>',
        f"<h1>{escape(TITLE)}</h1>",
        f"<nav>{''.join(f'<a href=#{escape(name)}>{escape(text)}</a>' for name, text in links)}</nav>",
        *(_html_table(table) for table in tables),
        *(_html_picture(picture) for picture in pictures),
        f"<footer><p>{escape(_stamp())}</p></footer></body></html>",
    ]
    return "\n".join(parts) + "\n"


def to_markdown(tables: Sequence[Table], pictures: Sequence[Picture] = ()) -> str:
    """The page as Markdown, its pictures beside it."""
    parts = [f"# {TITLE}", *(table.to_markdown(2) for table in tables)]
    parts += [_markdown_picture(picture) for picture in pictures] + [f"<sub>{_stamp()}</sub>"]
    return "\n\n".join(parts) + "\n"


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td{' class=differs' if cell.differs else ''}>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    notes = "".join(f"<li>{_inline(note)}</li>" for note in table.footer())
    return (
        f'<section id="{escape(table.name)}"><h2>{escape(table.title)}</h2>\n'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>\n<ul>{notes}</ul></section>"
    )


def _html_picture(picture: Picture) -> str:
    content = base64.b64encode(picture.path.read_bytes()).decode("ascii")
    source = f"data:{TYPES[picture.path.suffix]};base64,{content}"
    name, title = escape(picture.path.stem), escape(picture.title)
    notes = "".join(f"<li>{_inline(note)}</li>" for note in picture.notes)
    return f'<section id="{name}"><h2>{title}</h2>\n<img alt="{title}" src="{source}">\n<ul>{notes}</ul></section>'


def _markdown_picture(picture: Picture) -> str:
    notes = "\n".join(f"- {note}" for note in picture.notes)
    return f"## {picture.title}\n\n![{picture.title}]({picture.path.name})\n\n{notes}".rstrip()


def _inline(text: str) -> str:
    """Text with its `commands` set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _stamp() -> str:
    made = provenance()
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return versions + (f", commit {made['commit']}" if made["commit"] else "")
