"""ShapeNet's part annotation benchmark: one folder of point files per synset, `synsetoffset2category.txt`, lists of splits."""

from __future__ import annotations

import json
from pathlib import Path

from reqnn.data.dataset import PointClouds
from reqnn.data.layouts.base import Layout, Request, check_split, read_lines
from reqnn.data.layouts.shape_files import load_files
from reqnn.errors import InputError

NAMES = "synsetoffset2category.txt"


def recognise(path: Path) -> bool:
    """A folder with `synsetoffset2category.txt`."""
    return path.is_dir() and (path / NAMES).is_file()


def load(path: Path, request: Request) -> PointClouds:
    """The clouds of a split in the order of its list; with normals if the files have them."""
    check_split(request, ("train", "val", "test"))
    rows = [line.split() for line in read_lines(path / NAMES)]
    if any(len(row) != 2 for row in rows):
        raise InputError(f"{path / NAMES}: each line holds a class name and a synset, such as 'Airplane 02691156'")
    classes, synsets = [name for name, _ in rows], [synset for _, synset in rows]
    listed = path / "train_test_split" / f"shuffled_{request.split}_file_list.json"
    files, labels = [], []
    for entry in _entries(listed):
        synset, shape = entry.split("/")[-2:]
        if synset not in synsets:
            raise InputError(f"{listed}: the synset of '{entry}' is not in {NAMES}")
        files.append(_file(path, synset, shape, listed))
        labels.append(synsets.index(synset))
    return load_files(files, labels, classes, request, "y")


def _entries(listed: Path) -> list[str]:
    try:
        entries = json.loads(listed.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{listed} cannot be read ({error.strerror}); it defines the split") from error
    except ValueError as error:
        raise InputError(f"{listed} is not JSON ({error})") from error
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry.count("/") >= 1 for entry in entries):
        raise InputError(f"{listed}: a list of names such as 'shape_data/02691156/1a04e3' is needed")
    return entries


def _file(path: Path, synset: str, shape: str, listed: Path) -> Path:
    """The file of a shape: in the synset's folder (release with normals) or under `points` (first release)."""
    places = [path / synset / f"{shape}.txt", path / synset / "points" / f"{shape}.pts"]
    for place in places:
        if place.is_file():
            return place
    raise InputError(f"{listed} names {synset}/{shape}; neither {places[0]} nor {places[1]} exists")


LAYOUT = Layout(
    "ShapeNet's folders of point files", f"{NAMES}, train_test_split/shuffled_train_file_list.json", recognise, load
)
