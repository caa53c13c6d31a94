"""ShapeNet Part in the official HDF5 layout: parts go with their points."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from written_data import clouds, write_hdf5

from reqnn.cli import main
from reqnn.data import load
from reqnn.data.sets import PARTS
from reqnn.errors import InputError

LABELS = np.array([[0], [1], [15]], dtype=np.uint8)
FIRST = np.array([[0], [4], [47]])


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "hdf5_data"
    for i, split in enumerate(("train", "val", "test")):
        data = clouds(3, seed=i)
        write_hdf5(root / f"ply_data_{split}0.h5", data=data, label=LABELS, pid=(FIRST + (data[..., 0] > 0)).astype(np.uint8))
        (root / f"{split}_hdf5_file_list.txt").write_text(f"ply_data_{split}0.h5\n")
    lines = [f"{name}\t{i:08d}\n" for i, name in enumerate(PARTS)]
    (root / "all_object_categories.txt").write_text("".join(lines))
    return root


@pytest.mark.parametrize("points", [16, 9])
def test_parts_go_with_their_points(folder, points):
    for split in ("train", "val", "test"):
        found = load("shapenet-part", split, points, root=folder.parent)
        assert torch.equal(found.parts, torch.tensor(FIRST) + (found.points[..., 0] > 0))
        assert (len(found.part_names), found.part_names[47]) == (50, "Table 1")
    assert torch.equal(load(folder, "train", points).parts, load("shapenet-part", "train", points, root=folder.parent).parts)
    assert load("shapenet", "train", points, root=folder.parent).parts is None
    some = found.subset([2, 0])
    assert torch.equal(some.parts, found.parts[[2, 0]])
    other = replace(found, parts=found.parts.roll(1, 1))
    assert other.fingerprint() != found.fingerprint()


def test_info(folder, capsys):
    assert (
        main(["data", "info", "shapenet-part", "--root", str(folder.parent), "--points", "16", "--split", "train", "val"]) == 0
    )
    shown = capsys.readouterr().out
    assert "Airplane" in shown
    assert "50" in next(line for line in shown.splitlines() if "parts" in line and "shapenet" not in line)


def test_wrong_parts_are_named(folder):
    file = folder / "ply_data_train0.h5"
    for pid, message in (
        (np.full((3, 16), 4, np.uint8), "point 0 of cloud 0, a Airplane, has part 4, which is none of that class"),
        (np.full((3, 16), 60, np.uint8), "has part 60, which is none of that class"),
        (np.zeros((3, 15), np.uint8), r"field 'pid' has shape \(3, 15\).* one per point"),
    ):
        write_hdf5(file, data=clouds(3), label=LABELS, pid=pid)
        with pytest.raises(InputError, match=message):
            load("shapenet-part", "train", 16, root=folder.parent)
    write_hdf5(file, data=clouds(3), label=LABELS)
    with pytest.raises(InputError, match="field 'pid' is missing"):
        load("shapenet-part", "train", 16, root=folder.parent)
