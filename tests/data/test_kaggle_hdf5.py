import h5py
import numpy as np
import pytest
import torch
from written_data import clouds

from reqnn.data import load
from reqnn.errors import InputError


def write(path, count=12, sizes=(40, 60), **changes):
    with h5py.File(path, "w") as file:
        for i in range(count):
            group = file.create_group(str(i))
            group.attrs["label"] = i % 3
            group["points"] = clouds(1, sizes[i % 2], seed=i)[0]
            group["img"] = np.zeros((30, 30), np.uint8)
        for field, value in changes.items():
            name, _, kind = field.partition("_")
            group = file[name[1:]]
            if kind == "label":
                del group.attrs["label"]
                if value is not None:
                    group.attrs["label"] = value
            else:
                del group["points"]
                if value is not None:
                    group["points"] = value
    return path


def test_clouds_of_different_sizes_come_in_numerical_order(tmp_path):
    write(tmp_path / "train_point_clouds.h5")
    found = load(tmp_path, "train", 32)
    assert found.points.shape == (12, 32, 3)
    assert found.labels.tolist() == [0, 1, 2] * 4  # "10" and "11" come last
    assert found.classes == tuple("0123456789")
    assert found.up == "z"
    assert torch.allclose(found.points.norm(dim=-1).amax(1), torch.ones(12))


def test_the_cache_gives_the_same(tmp_path):
    file = write(tmp_path / "train_point_clouds.h5")
    first = load(file, "train", 32, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert torch.equal(load(file, "train", 32, cache=tmp_path / "cache").points, first.points)
    write(file, p3_points=clouds(1, 50, seed=99)[0])
    assert not torch.equal(load(file, "train", 32, cache=tmp_path / "cache").points, first.points)


def test_points_that_come_twice_count_once(tmp_path):
    cloud = clouds(1, 8)[0]
    file = write(tmp_path / "mine.h5", count=3, p0_points=np.concatenate([cloud, cloud]))
    found = load(file, "all", 8, normalize=False).points[0]
    assert len(found.unique(dim=0)) == 8
    with pytest.raises(InputError, match=r"field '0/points' holds 8 points; 9 are asked for"):
        load(file, "all", 9)


def test_a_folder_without_the_split(tmp_path):
    write(tmp_path / "train_point_clouds.h5")
    with pytest.raises(InputError, match=r"holds no test_point_clouds\.h5"):
        load(tmp_path, "test", 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p2_points": None}, "field '2/points' is missing; the file holds img"),
        ({"p2_points": np.ones((5, 2))}, r"field '2/points' has shape \(5, 2\)"),
        ({"p2_points": np.full((5, 3), np.nan)}, "field '2/points' holds NaN"),
        ({"p2_points": np.ones((50, 3))}, "field '2/points' holds 1 points"),
        ({"p2_label": None}, "field '2': the attribute 'label' is missing; a whole number from 0 to 9"),
        ({"p2_label": 10}, "field '2': the attribute 'label' is 10; a whole number from 0 to 9"),
        ({"p2_label": 1.5}, "the attribute 'label' is 1.5"),
        ({"p2_label": [1, 2]}, "the attribute 'label'"),
    ],
)
def test_bad_fields(tmp_path, changes, message):
    file = write(tmp_path / "train_point_clouds.h5", **changes)
    with pytest.raises(InputError, match=message):
        load(file, "train", 4)


def test_an_entry_that_is_no_group(tmp_path):
    file = write(tmp_path / "train_point_clouds.h5", count=3)
    with h5py.File(file, "a") as opened:
        opened["3"] = np.ones(3)
    with pytest.raises(InputError, match="each entry is a group"):
        load(file, "train", 4)


def test_an_hdf5_file_of_nothing(tmp_path):
    h5py.File(tmp_path / "empty.h5", "w").close()
    with pytest.raises(InputError, match="no known layout"):
        load(tmp_path / "empty.h5", "all", 4)
