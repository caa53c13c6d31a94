"""Files that a training writes: under names that nobody can foresee, created by us, renamed at the end."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from reqnn.data.dataset import PointClouds
from reqnn.train.loop import fit

opened: dict[str, bool] = {}
watched: list[str] = []


def watch(event: str, arguments: tuple) -> None:
    if event == "open" and watched and isinstance(arguments[0], str) and arguments[0].startswith(watched[0]):
        path, _, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR):
            opened.setdefault(path, bool(flags & os.O_EXCL))


def test_every_file_is_created_exclusively(
    tmp_path: Path, clouds: PointClouds, held_out: PointClouds, settings: Callable
) -> None:
    """O_EXCL: a link that somebody planted in the place of a file is neither followed nor written through."""
    sys.addaudithook(watch)  # cannot be removed; an empty list silences it
    watched.append(str(tmp_path))
    try:
        fit(settings(epochs=2), clouds, held_out, quiet=True)
    finally:
        watched.clear()
    written = {Path(path).name for path in opened if not os.path.isdir(path)}
    assert sum(name.startswith(".") for name in written) > 5
    ours = {path: exclusive for path, exclusive in opened.items() if not os.path.isdir(path) and not path.endswith("curve.png")}
    assert [path for path, exclusive in ours.items() if not exclusive] == []  # the curve is a stub here: see test_log
