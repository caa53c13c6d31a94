"""File layouts of data sets, one file each; to add one, add a file here and a line in `LAYOUTS`."""

from __future__ import annotations

from pathlib import Path

from reqnn.data.layouts import (
    class_folders,
    kaggle_hdf5,
    modelnet_text,
    pointnet_hdf5,
    scanobjectnn_hdf5,
    shapenet_folders,
)
from reqnn.data.layouts.base import Layout, Request
from reqnn.errors import InputError

LAYOUTS: tuple[Layout, ...] = (  # the first that recognises a path reads it
    pointnet_hdf5.LAYOUT,
    kaggle_hdf5.LAYOUT,
    scanobjectnn_hdf5.LAYOUT,
    modelnet_text.LAYOUT,
    shapenet_folders.LAYOUT,
    class_folders.LAYOUT,
)


def layout_of(path: Path) -> Layout:
    """The layout of a folder or file; `InputError` with all known layouts if it has none."""
    if not path.exists():
        raise InputError(f"there is no file or folder {path}")
    try:
        for layout in LAYOUTS:
            if layout.recognise(path):
                return layout
        there = sorted(child.name for child in path.iterdir())[:6] if path.is_dir() else []
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    looked = "".join(f"\n  {layout.name}: {layout.looks_for}" for layout in LAYOUTS)
    raise InputError(f"{path} has no known layout{f'; it holds {chr(44).join(there)}' if there else ''}. Looked for:{looked}")


__all__ = ["LAYOUTS", "Layout", "Request", "layout_of"]
