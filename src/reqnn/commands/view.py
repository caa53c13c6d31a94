"""`reqnn view`: rotate an object in the browser, and watch what networks say about it."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from reqnn.commands.base import OK, Command, busy, optional

NETWORKS = ("dgcnn.ordinary.scanned", "dgcnn.full.scanned")
"""Weights that ship: a DGCNN and its REQNN, trained on the same upright scanned objects."""


@dataclass(kw_only=True)
class View(Command):
    """Rotate an object in the browser, and watch the answers of an ordinary network and of its REQNN side by side.

    Objects: 38 scanned ones that ship, your files, and what you upload to the page. The page needs the extra `view`, is served
    to this machine only unless --host says otherwise, and loads nothing from other hosts. Ctrl-C ends it.

    Examples:
        reqnn view
        reqnn view chair.ply scans/
        reqnn view runs/original runs/reqnn
        reqnn view demo                     # the networks that `reqnn demo` has trained
    """

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], optional("[NAME|RUN|FILE ...]")] = ()
    """Networks (names of pretrained weights, runs, folders of runs) and files or folders of meshes and clouds.
    Default: a small DGCNN and its REQNN that ship, on scanned objects."""
    host: str = "127.0.0.1"
    """The address to serve on; 0.0.0.0 for all of this machine, open to anyone who can reach it."""
    port: int = 8080
    """The port; if it is taken, the next free one."""
    browser: bool = False
    """Open the page in the browser."""

    def run(self) -> int:
        """Load, serve, wait."""
        from reqnn.extras import need
        from reqnn.pretrained import find_files
        from reqnn.view.comparison import Comparison
        from reqnn.view.page import Page

        need("viser")
        networks, files = sort_words(self.what)
        found = {str(path): path for path in find_files(files)}
        with busy("loading"):
            page = Page(Comparison(networks or NETWORKS), found, self.host, self.port)
        print(f"{page.url()}  (Ctrl-C ends it)", flush=True)
        if self.browser:
            webbrowser.open(page.url())
        with suppress(KeyboardInterrupt):  # that is how it ends
            page.worker.join()
        page.stop()
        return OK


def sort_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Networks, and files or folders of shapes: a folder is a run, holds runs, or holds shapes."""
    from reqnn.data.shape_file import SUFFIXES
    from reqnn.train.run import BEST, list_weights

    networks, files = [], []
    for word in words:
        path = Path(word).expanduser()
        runs = sorted(str(file.parent) for file in path.rglob(BEST)) if path.is_dir() else []
        if runs:
            networks += runs
        elif word not in list_weights() and (path.is_dir() or path.suffix.lower() in SUFFIXES):
            files.append(word)
        else:
            networks.append(word)
    return networks, files
