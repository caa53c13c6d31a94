"""What the build of the docs adds: equations as MathML, and pages from outside of this folder.

Equations are written ``$…$`` and ``$$…$$``, which GitHub renders too. Pages link to ``../results/`` and
``../src/reqnn/weights/`` as they lie in a clone; the site holds copies of these files.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

OUTSIDE = {"results": "results", "src/reqnn/weights": "weights"}
SHOWN = {".md", ".png", ".json"}
_MATH = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the results and the model cards."""
    root = Path(config.config_file_path).parent
    for folder, shown_as in OUTSIDE.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SHOWN:
                place = f"{shown_as}/{path.relative_to(root / folder).as_posix()}"
                files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at the copies."""
    for folder, shown_as in OUTSIDE.items():
        markdown = markdown.replace(f"](../{folder}/", f"]({shown_as}/")
    return markdown


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace every equation by MathML, which browsers show without a script."""

    def mathml(match: re.Match[str]) -> str:
        latex = html.unescape(match[3])
        out = convert(latex, display="block" if match[2] == "[" else "inline")
        if "\\" in out:
            raise PluginError(f"{page.file.src_uri}: latex2mathml does not know a command in ${latex}$")
        return out

    return _MATH.sub(mathml, content)
