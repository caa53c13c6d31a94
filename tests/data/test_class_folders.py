import numpy as np
import pytest
import torch
from written_data import box, clouds

from reqnn.data import load, read_cloud
from reqnn.errors import InputError


def write(folder, counts, start=0):
    """`counts` names folders and how many boxes of different sizes go there."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            start += 1
            (folder / name / f"{name.split('/')[0]}_{i:04d}.off").write_text(box(start))
    return folder


def test_modelnets_folders(tmp_path):
    write(tmp_path / "ModelNet40", {"chair/train": 3, "chair/test": 1, "lamp/train": 2, "lamp/test": 2})
    (tmp_path / "ModelNet40" / "README.txt").write_text("about")
    (tmp_path / "ModelNet40" / "chair" / "train" / "._chair_0001.off").write_text("litter")
    (tmp_path / "ModelNet40" / "__MACOSX").mkdir()
    train, test = (load("modelnet40", split, 32, root=tmp_path) for split in ("train", "test"))
    assert train.labels.tolist() == [0, 0, 0, 1, 1]
    assert test.labels.tolist() == [0, 1, 1]
    assert train.classes == ("chair", "lamp")
    assert (train.name, train.up, train.split) == ("modelnet40", "z", "train")
    assert train.points.shape == train.normals.shape == (5, 32, 3)
    file = tmp_path / "ModelNet40" / "lamp" / "test" / "lamp_0001.off"
    assert torch.equal(test.points[2], read_cloud(file, 32))


def test_splits_above_classes(tmp_path):
    write(tmp_path, {"train/chair": 2, "train/lamp": 1, "val/chair": 1, "test/lamp": 3})
    assert load(tmp_path, "train", 8).counts == {"chair": 2, "lamp": 1}
    assert load(tmp_path, "val", 8).counts == {"chair": 1, "lamp": 0}
    assert load(tmp_path, "test", 8).counts == {"chair": 0, "lamp": 3}
    assert len(load(tmp_path, "all", 8)) == 7


def test_without_splits_files_are_split_by_a_seed(tmp_path):
    write(tmp_path, {"chair": 10, "lamp": 5, "vase": 1})
    train, test, whole = (load(tmp_path, split, 8) for split in ("train", "test", "all"))
    assert test.counts == {"chair": 2, "lamp": 1, "vase": 0}
    assert train.counts == {"chair": 8, "lamp": 4, "vase": 1}
    assert len(whole) == 16
    assert not (train.points[:, None] == test.points).all(-1).all(-1).any()
    assert torch.equal(load(tmp_path, "test", 8).points, test.points)
    assert load(tmp_path, "test", 8, test_fraction=0.5).counts["chair"] == 5
    others = [load(tmp_path, "test", 8, split_seed=seed).points for seed in (1, 2, 3)]
    assert not all(torch.equal(test.points, other) for other in others)


def test_copies_of_a_file_form_a_group_on_one_side(tmp_path):
    write(tmp_path, {"chair": 6, "lamp": 6})
    for i in range(3):
        (tmp_path / "lamp" / f"copy_{i}.off").write_bytes((tmp_path / "chair" / f"chair_{i:04d}.off").read_bytes())
    whole = load(tmp_path, "all", 8)
    assert len(whole.groups.unique()) == 12
    for seed in range(5):
        train, test = (load(tmp_path, split, 8, split_seed=seed) for split in ("train", "test"))
        assert not (train.points[:, None] == test.points).all(-1).all(-1).any()


def test_meshes_and_clouds_of_different_sizes(tmp_path):
    write(tmp_path, {"chair": 2})
    np.save(tmp_path / "chair" / "scan.npy", clouds(1, 50)[0])
    np.savetxt(tmp_path / "chair" / "scan.xyz", clouds(1, 20)[0])
    found = load(tmp_path, "all", 20)
    assert found.points.shape == (4, 20, 3)
    assert found.normals is None  # the scans have none
    with pytest.raises(InputError, match=r"scan\.xyz holds 20 points; 21 are asked for"):
        load(tmp_path, "all", 21)
    assert load(tmp_path, "all", 21, short="repeat").points.shape == (4, 21, 3)


def test_colours_are_no_normals(tmp_path):
    (tmp_path / "chair").mkdir()
    np.savetxt(tmp_path / "chair" / "scan.txt", np.concatenate([clouds(1)[0], 255 * np.ones((16, 3))], axis=1))
    assert load(tmp_path, "all", 16).normals is None


def test_original_units(tmp_path):
    write(tmp_path, {"chair": 1})
    assert load(tmp_path, "all", 200, normalize=False).points.amax() > 2.9


def test_bad_folders(tmp_path):
    write(tmp_path, {"chair": 2})
    (tmp_path / "lamp").mkdir()
    with pytest.raises(InputError, match="the class folder 'lamp' holds no shapes; fill it or remove it"):
        load(tmp_path, "train", 8)
    write(tmp_path, {"lamp/train": 2})
    with pytest.raises(InputError, match=r"some class folders have train and test folders and some, as for .*chair_0000"):
        load(tmp_path, "train", 8)
    write(tmp_path, {"lamp/train": 1, "chair/train": 1})
    with pytest.raises(InputError, match="split is 'val'; it is one of train, all"):
        load(tmp_path, "val", 8)


def test_a_damaged_file_is_named(tmp_path):
    write(tmp_path, {"chair": 2})
    (tmp_path / "chair" / "chair_0001.off").write_text(box()[:60])
    with pytest.raises(InputError, match=r"chair_0001\.off cannot be read as \.off, or is damaged or truncated"):
        load(tmp_path, "all", 8)
