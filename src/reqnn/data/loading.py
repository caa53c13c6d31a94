"""`load`: every data set by name or path."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from reqnn.data import folder_layouts, hdf5_layouts
from reqnn.data.dataset import PointClouds
from reqnn.data.layout import Layout, NamedSet, Request, check_split, drawn_split
from reqnn.data.sampling import check_sampling, check_seed
from reqnn.data.sets import SETS
from reqnn.errors import InputError, check_share

ROOT_VARIABLE = "REQNN_DATA"
LAYOUTS: tuple[Layout, ...] = (*hdf5_layouts.LAYOUTS, *folder_layouts.LAYOUTS)
"""The first that knows a path reads it."""


def load(
    name_or_path: str | Path,
    split: str,
    points: int = 1024,
    root: str | Path | None = None,
    seed: int = 0,
    *,
    sampling: str = "random",
    short: str = "error",
    normalize: bool | None = None,
    up: str | None = None,
    variant: str | None = None,
    test_fraction: float = 0.2,
    split_seed: int = 0,
    cache: str | Path | None = None,
) -> PointClouds:
    """The clouds of one split of a data set: one of `list_datasets()`, or a folder or file with a known layout.

    Args:
        split: "train", "test", or another split of the files; for a validation set see `split_validation`.
        points: points per cloud; meshes are sampled on their surface.
        root: the folder that holds the named data sets; default: $REQNN_DATA, else the user's cache folder.
        seed: of the choice of points.
        sampling: which points of a larger cloud to take, "random" or "first".
        short: for a cloud of fewer points, raise an "error" or "repeat" points.
        normalize: centre each cloud and scale it to the unit sphere; default: only if its files are not normalised.
        up: the vertical axis; default: that of the layout.
        variant: which of several versions in one folder, for example ScanObjectNN's "augmentedrot_scale75".
        test_fraction: share of each class in the test split if the files have none, drawn by `split_seed`.
        cache: the folder for sampled meshes; default: the user's cache folder.
    """
    check_sampling(sampling, short, points, seed)
    check_seed(split_seed, "split_seed")
    check_share(test_fraction, "test_fraction")
    stored = _user_cache() / "sampled" if cache is None else Path(cache)
    path = Path(name_or_path).expanduser()
    known = known_set(name_or_path) or NamedSet(path.resolve().name)
    choice = (sampling, short, normalize, up or known.up, variant, test_fraction, split_seed, stored)
    request = Request(known, split, points, seed, *choice)
    if known.embedded is not None:
        return known.embedded(request)
    if known.name == str(name_or_path) and known.folders:
        path = find_folder(known, data_root(root))
    found = keep_classes(_read(path, request), known.only)
    return found if path.is_dir() else _file_split(path, found, request)


def known_set(name_or_path: str | Path) -> NamedSet | None:
    """The named data set of a name or of a path's folder, None for other paths; `InputError` if it is neither."""
    known, path = SETS.get(str(name_or_path)), Path(name_or_path).expanduser()
    if known is None and not path.exists():
        listed = ", ".join(list_datasets())
        raise InputError(f"{str(name_or_path)!r} is neither a data set nor a path; the data sets are {listed}")
    return known or next((one for one in SETS.values() if path.name in one.folders and not one.only), None)


def list_datasets() -> list[str]:
    """The names of data sets for `load`."""
    return list(SETS)


def data_root(root: str | Path | None = None) -> Path:
    """The folder that holds the named data sets: as given, else $REQNN_DATA, else the user's cache folder."""
    given = root or os.environ.get(ROOT_VARIABLE)
    return Path(given).expanduser() if given else _user_cache()


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reqnn"


def find_folder(known: NamedSet, root: Path) -> Path:
    """The folder of a data set under the root; if there is none, `InputError` with where to get it."""
    for name in known.folders:
        if (root / name).exists():
            return root / name
    now = repr(os.environ[ROOT_VARIABLE]) if os.environ.get(ROOT_VARIABLE) else "not set"
    raise InputError(
        f"{known.name} is not on this machine.\n"
        f"  what to get: {known.how_to_get}\n"
        f"  where to put it: {root / known.folders[0]}\n"
        f"    (other names for that folder: {', '.join(known.folders[1:])})\n"
        f"  another place: set the variable {ROOT_VARIABLE} to the folder that holds it (now {now}), or pass its path"
    )


def _read(path: Path, request: Request) -> PointClouds:
    """The clouds of a folder or file by the first layout that knows it; `InputError` with all layouts if none does."""
    try:
        for layout in LAYOUTS:
            if (found := layout.load(path, request)) is not None:
                return found
        there = sorted(child.name for child in path.iterdir())[:6] if path.is_dir() else []
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    looked = "".join(f"\n  {layout.name}: {layout.looks_for}" for layout in LAYOUTS)
    holds = f"; it holds {', '.join(there)}" if there else ""
    raise InputError(f"{path} has no known layout{holds}. Looked for:{looked}")


def _file_split(path: Path, clouds: PointClouds, request: Request) -> PointClouds:
    """The clouds of a single file in the split: all if its name says train or test, else drawn by the split seed."""
    named = next((split for split in ("train", "test") if split in path.stem.lower()), None)
    check_split(request, (named, "all") if named else ("train", "test", "all"))
    if named:
        return clouds
    chosen = drawn_split(clouds.labels.numpy(), np.arange(len(clouds)), request)
    if not len(chosen):
        raise InputError(f"{request.known.name}: the split '{request.split}' holds no clouds")
    return clouds.subset(chosen.tolist())


def keep_classes(clouds: PointClouds, only: tuple[str, ...] | None) -> PointClouds:
    """The clouds of these classes, numbered in this order; all for None."""
    if only is None or clouds.classes == only:
        return clouds
    missing = [name for name in only if name not in clouds.classes]
    if missing:
        raise InputError(f"{clouds.name}: its files hold no class {', '.join(missing)}; they hold {', '.join(clouds.classes)}")
    number = torch.full((len(clouds.classes),), -1)
    number[[clouds.classes.index(name) for name in only]] = torch.arange(len(only))
    kept = clouds.subset((number[clouds.labels] >= 0).nonzero()[:, 0])
    return replace(kept, labels=number[kept.labels], classes=only)
