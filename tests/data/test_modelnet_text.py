import numpy as np
import pytest
import torch
from written_data import clouds

from reqnn.data import load
from reqnn.errors import InputError


@pytest.fixture
def folder(tmp_path):
    """Three chairs and two night stands of 30 points with normals."""
    root = tmp_path / "modelnet40_normal_resampled"
    for kind, count in (("chair", 3), ("night_stand", 2)):
        (root / kind).mkdir(parents=True)
        for i in range(count):
            rows = np.concatenate(np.split(clouds(2, 30, seed=i + len(kind)), 2), axis=2)[0]
            np.savetxt(root / kind / f"{kind}_{i + 1:04d}.txt", rows, fmt="%.6f", delimiter=",")
    (root / "modelnet40_shape_names.txt").write_text("chair\nnight_stand\n")
    (root / "modelnet40_train.txt").write_text("night_stand_0001\nchair_0002\nchair_0001\n")
    (root / "modelnet40_test.txt").write_text("chair_0003\nnight_stand_0002\n")
    return root


def test_lists_classes_and_normals(folder):
    train, test = load("modelnet40", "train", 20, root=folder.parent), load(folder, "test", 20)
    assert train.labels.tolist() == [1, 0, 0]
    assert test.labels.tolist() == [0, 1]
    assert train.classes == ("chair", "night_stand")
    assert (train.name, test.name, train.up) == ("modelnet40", "modelnet40", "y")
    assert train.points.shape == train.normals.shape == (3, 20, 3)
    assert torch.allclose(train.points.norm(dim=-1).amax(1), torch.ones(3))
    raw = np.loadtxt(folder / "chair" / "chair_0002.txt", delimiter=",")
    whole = load(folder, "train", 30, normalize=False)
    assert np.allclose(whole.points[1].numpy(), raw[:, :3])
    assert np.allclose(whole.normals[1].numpy(), raw[:, 3:])


def test_a_list_that_does_not_fit(folder):
    (folder / "modelnet40_train.txt").write_text("chair_0001\nchair_0009\n")
    with pytest.raises(InputError, match=r"modelnet40_train\.txt: 1 of its 2 files are missing, such as .*chair_0009"):
        load(folder, "train", 20)
    (folder / "modelnet40_train.txt").write_text("table_0001\n")
    with pytest.raises(InputError, match="'table_0001' is of no class"):
        load(folder, "train", 20)
    (folder / "modelnet40_train.txt").unlink()
    with pytest.raises(InputError, match=r"modelnet40_train\.txt cannot be read"):
        load(folder, "train", 20)


def test_a_damaged_file_is_named(folder):
    file = folder / "chair" / "chair_0001.txt"
    for content, message in (
        ("1,2,3,0,0,1\n1,2\n", r"chair_0001\.txt cannot be read as \.txt"),
        ("", r"chair_0001\.txt is empty"),
        ("1,2\n3,4\n", r"array of shape \(2, 2\)"),
        ("1,2,nan,0,0,1\n" * 40, r"chair_0001\.txt: point 0 has NaN"),
        ("1.5,2,3,0,0,1\n" * 10, r"chair_0001\.txt holds 10 points; 20 are asked for"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=message):
            load(folder, "train", 20)
