"""ShapeNet Part in the official HDF5 and text layouts: parts go with their points."""

import json
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


@pytest.fixture
def text(tmp_path):
    """The text layout: with normals and the number among all parts, and as in the first release, counted from 1 in a class."""
    root = tmp_path / "shapenetcore_partanno_segmentation_benchmark_v0_normal"
    synsets = {name: f"{i:08d}" for i, name in enumerate(PARTS)}
    (root / "train_test_split").mkdir(parents=True)
    (root / synsets["Airplane"]).mkdir()
    (root / synsets["Table"] / "points").mkdir(parents=True)
    (root / synsets["Table"] / "points_label").mkdir()
    (root / "synsetoffset2category.txt").write_text("".join(f"{name}\t{synset}\n" for name, synset in synsets.items()))
    for i, split in enumerate(("train", "val", "test")):
        plane, table = clouds(2, 40, seed=i)
        table = table[:12]  # too few: some are repeated
        rows = np.column_stack([plane, plane / np.linalg.norm(plane, axis=1, keepdims=True), plane[:, 0] > 0])
        np.savetxt(root / synsets["Airplane"] / f"a{i}.txt", rows, fmt=["%.6f"] * 6 + ["%.1f"])
        np.savetxt(root / synsets["Table"] / "points" / f"t{i}.pts", table)
        np.savetxt(root / synsets["Table"] / "points_label" / f"t{i}.seg", 1 + (table[:, 0] > 0), fmt="%d")
        entries = [f"shape_data/{synsets['Table']}/t{i}", f"shape_data/{synsets['Airplane']}/a{i}"]
        (root / "train_test_split" / f"shuffled_{split}_file_list.json").write_text(json.dumps(entries))
    return root


def test_parts_of_the_text_layout(text, tmp_path, capsys):
    settings = {"root": text.parent, "normalize": False, "cache": tmp_path / "cache"}
    for _ in range(2):  # from the cache the second time
        for split in ("train", "val", "test"):
            found = load("shapenet-part", split, 16, **settings)
            assert found.labels.tolist() == [15, 0]
            assert torch.equal(found.parts, torch.tensor([[47], [0]]) + (found.points[..., 0] > 0))
            assert found.part_names[47] == "Table 1"
    assert load("shapenet", "train", 16, **settings).parts is None
    assert torch.equal(load(text, "train", 16, normalize=False).parts, load("shapenet-part", "train", 16, **settings).parts)
    assert main(["data", "info", "shapenet-part", "--root", str(text.parent), "--points", "16"]) == 0
    assert "50" in next(line for line in capsys.readouterr().out.splitlines() if "parts" in line and "shapenet" not in line)


def test_wrong_parts_of_the_text_layout(text, tmp_path):
    settings = {"root": text.parent, "cache": tmp_path / "cache"}
    (text / f"{15:08d}" / "points_label" / "t0.seg").write_text("1\n2\n")
    with pytest.raises(InputError, match="12 lines with the number of a part are needed; there are 2"):
        load("shapenet-part", "train", 16, **settings)
    np.savetxt(text / f"{0:08d}" / "a1.txt", clouds(1, 40)[0])
    with pytest.raises(InputError, match=r"a1.txt has 3 columns; x y z nx ny nz and the part are needed"):
        load("shapenet-part", "val", 16, **settings)
