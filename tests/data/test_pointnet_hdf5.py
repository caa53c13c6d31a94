import h5py
import numpy as np
import pytest
import torch
from written_data import clouds, write_hdf5

from reqnn.data import load
from reqnn.errors import InputError


def test_files_are_read_in_order_as_they_are(pointnet_folder):
    train, test = load(pointnet_folder, "train", 16), load(pointnet_folder, "test", 16)
    assert train.points.shape == (9, 16, 3)
    assert np.array_equal(train.points[5:].numpy(), clouds(4, seed=1))
    assert train.labels.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 0]
    assert train.classes == ("chair", "lamp", "table")
    assert (train.name, train.split, train.up) == ("shapes", "train", "y")
    assert len(test) == 3
    assert train.normals is None


def test_files_are_sorted_by_number(tmp_path):
    for number in (10, 2, 0):
        label = np.full((1, 1), number, dtype=np.uint8)
        write_hdf5(tmp_path / f"ply_data_train{number}.h5", data=clouds(1), label=label)
    found = load(tmp_path, "train", 16)
    assert found.labels.tolist() == [0, 2, 10]
    assert found.classes == tuple(map(str, range(11)))


def test_a_list_of_files_decides_where_it_is_there(pointnet_folder):
    listed = pointnet_folder / "train_files.txt"
    listed.write_text("data/elsewhere/ply_data_train1.h5\ndata/elsewhere/ply_data_train0.h5\n")
    assert np.array_equal(load(pointnet_folder, "train", 16).points[:4].numpy(), clouds(4, seed=1))
    listed.write_text("ply_data_train7.h5\n")
    with pytest.raises(InputError, match=r"ply_data_train7\.h5 cannot be read \(No such file"):
        load(pointnet_folder, "train", 16)
    listed.write_text("\n")
    with pytest.raises(InputError, match=r"train_files\.txt is empty"):
        load(pointnet_folder, "train", 16)


def test_shapenet_parts_use_other_lists(tmp_path):
    for split in ("train0", "val0", "test0"):
        write_hdf5(tmp_path / f"ply_data_{split}.h5", data=clouds(2), label=np.array([[0], [1]], dtype=np.uint8))
    (tmp_path / "all_object_categories.txt").write_text("Airplane\t02691156\nBag\t02773838\n")
    (tmp_path / "val_hdf5_file_list.txt").write_text("./ply_data_val0.h5\n")
    found = load(tmp_path, "val", 16)
    assert found.classes == ("Airplane", "Bag")
    assert found.split == "val"


def test_normals_go_with_their_points(tmp_path):
    data = clouds(3)
    write_hdf5(tmp_path / "ply_data_train0.h5", data=data, label=np.zeros((3, 1), np.uint8), normal=2 * data)
    found = load(tmp_path, "train", 7, seed=3)
    assert found.normals.shape == (3, 7, 3)
    assert torch.equal(found.normals, 2 * found.points)


def test_fewer_points_are_a_seeded_choice_and_more_an_error(pointnet_folder):
    whole = load(pointnet_folder, "train", 16)
    some = load(pointnet_folder, "train", 9, seed=1)
    assert torch.equal(some.points, load(pointnet_folder, "train", 9, seed=1).points)
    assert not torch.equal(some.points, load(pointnet_folder, "train", 9).points)
    assert all((cloud[:, None] == full).all(-1).any(1).all() for cloud, full in zip(some.points, whole.points, strict=True))
    assert torch.equal(load(pointnet_folder, "train", 9, sampling="first").points, whole.points[:, :9])
    with pytest.raises(InputError, match=r"ply_data_train0\.h5: field 'data', cloud 0 holds 16 points; 17 are asked for"):
        load(pointnet_folder, "train", 17)
    assert load(pointnet_folder, "train", 40, short="repeat").points.shape == (9, 40, 3)


def test_one_point_a_cloud(tmp_path):
    write_hdf5(tmp_path / "ply_data_train0.h5", data=clouds(2, 1), label=np.zeros((2, 1), np.uint8))
    assert load(tmp_path, "train", 1).points.shape == (2, 1, 3)
    with pytest.raises(InputError, match="cloud 0: its 1 points coincide"):
        load(tmp_path, "train", 1, normalize=True)


def test_normalize(pointnet_folder):
    found = load(pointnet_folder, "train", 16, normalize=True).points
    assert torch.allclose(found.norm(dim=-1).amax(1), torch.ones(9))
    assert found.mean(1).abs().max() < 1e-6


def test_single_files(pointnet_folder, tmp_path):
    assert len(load(pointnet_folder / "ply_data_train0.h5", "train", 16)) == 5
    with pytest.raises(InputError, match="split is 'test'; it is one of train, all"):
        load(pointnet_folder / "ply_data_train0.h5", "test", 16)
    labels = (np.arange(30) % 3)[:, None].astype(np.uint8)
    file = write_hdf5(tmp_path / "mine.hdf5", data=clouds(30), label=labels)
    assert len(load(file, "all", 16)) == 30
    train, test = load(file, "train", 16), load(file, "test", 16)
    assert (len(train), len(test)) == (24, 6)
    assert test.counts == {"0": 2, "1": 2, "2": 2}
    assert not (train.points[:, None] == test.points).all(-1).all(-1).any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data": clouds(2)}, "field 'label' is missing; the file holds data"),
        ({"label": np.zeros((2, 1))}, "field 'data' is missing"),
        ({"data": clouds(2)[..., :2], "label": np.zeros((2, 1))}, r"field 'data' has shape \(2, 16, 2\)"),
        ({"data": clouds(2)[0], "label": np.zeros((2, 1))}, r"field 'data' has shape \(16, 3\)"),
        ({"data": clouds(2)[:, :0], "label": np.zeros((2, 1))}, r"field 'data' has shape \(2, 0, 3\)"),
        ({"data": np.ones((2, 16, 3), int), "label": np.zeros((2, 1))}, "field 'data' holds int64"),
        ({"data": clouds(2), "label": np.zeros((3, 1))}, r"field 'label' has shape \(3, 1\)"),
        ({"data": clouds(2), "label": np.array([[0], [3]])}, "cloud 1 is labelled 3; labels are 0 to 2"),
        ({"data": clouds(2), "label": np.array([[0], [-1]])}, "cloud 1 is labelled -1"),
        ({"data": clouds(2), "label": np.array([[0], [0.5]])}, "fractions"),
        ({"data": clouds(2), "label": np.array([[0], [np.nan]])}, "fractions"),
        ({"data": clouds(2) * [[[1]], [[np.nan]]], "label": np.zeros((2, 1))}, "cloud 1 holds NaN"),
        ({"data": clouds(2).astype(float) * 1e300, "label": np.zeros((2, 1))}, "cloud 0 holds NaN or infinite"),
        ({"data": clouds(2), "label": np.zeros((2, 1)), "normal": clouds(2, 8)}, "field 'normal' has shape"),
        ({"data": clouds(0), "label": np.zeros((0, 1))}, "the split 'train' holds no clouds"),
        ({"data": np.bytes_("words"), "label": np.zeros((2, 1))}, "field 'data' holds no array of numbers"),
    ],
)
def test_bad_fields(tmp_path, fields, message):
    write_hdf5(tmp_path / "ply_data_train0.h5", **fields)
    (tmp_path / "shape_names.txt").write_text("a\nb\nc\n")
    with pytest.raises(InputError, match=message):
        load(tmp_path, "train", 16)


def test_damaged_files(pointnet_folder):
    file = pointnet_folder / "ply_data_train1.h5"
    whole = file.read_bytes()
    for content, message in (
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1", "is no HDF5 file"),
        (whole[: len(whole) // 2], "is no HDF5 file, or truncated"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=rf"ply_data_train1\.h5 {message}"):
            load(pointnet_folder, "train", 16)
        with pytest.raises(InputError, match=message):
            load(file, "train", 16)


def test_a_damaged_chunk(tmp_path):
    file = tmp_path / "ply_data_train0.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("data", data=clouds(64), chunks=(64, 16, 3), compression="gzip")
        opened["label"] = np.zeros((64, 1), np.uint8)
        chunk = opened["data"].id.get_chunk_info(0)
    content = bytearray(file.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + 200] = bytes(200)
    file.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"field 'data' cannot be read; the file is truncated or damaged"):
        load(tmp_path, "train", 16)


def test_no_permission(pointnet_folder, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(
        InputError, match=r"(?s)shape_names\.txt cannot be read.*permissions|cannot be read \(Permission denied\)"
    ):
        load(pointnet_folder, "train", 16)


def test_missing_and_unknown_splits(pointnet_folder):
    (pointnet_folder / "ply_data_test0.h5").unlink()
    with pytest.raises(InputError, match=r"holds no ply_data_test\*\.h5"):
        load(pointnet_folder, "test", 16)
    with pytest.raises(InputError, match=r"one of train, test; a validation set comes from split_validation"):
        load(pointnet_folder, "validation", 16)


def test_a_class_without_samples_counts_zero(pointnet_folder):
    (pointnet_folder / "shape_names.txt").write_text("chair\nlamp\ntable\nvase\n")
    assert load(pointnet_folder, "train", 16).counts == {"chair": 4, "lamp": 3, "table": 2, "vase": 0}


def test_announced_data_that_is_not_there_is_refused(tmp_path):
    """1.7 KB that become 2 GB of fill values."""
    path = tmp_path / "fill.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", shape=(90000, 2048, 3), dtype="f4", fillvalue=1.0, chunks=(900, 2048, 3))
        file.create_dataset("label", shape=(90000, 1), dtype="i1", chunks=(90000, 1))
    assert path.stat().st_size < 20_000
    with pytest.raises(InputError, match=r"fill\.h5: field 'data' is damaged: 2,211,840,000 bytes are announced"):
        load(path, "all")


@pytest.mark.parametrize("kind", ["link", "storage", "virtual"])
def test_data_in_other_files_is_refused(kind, tmp_path):
    other = write_hdf5(tmp_path / "other.h5", data=clouds(4), label=np.zeros((4, 1), int))
    (tmp_path / "raw").write_bytes(clouds(4).tobytes())
    with h5py.File(tmp_path / "some.h5", "w") as file:
        file["label"] = np.zeros((4, 1), int)
        if kind == "link":
            file["data"] = h5py.ExternalLink(str(other), "data")
        elif kind == "storage":
            size = 4 * 16 * 3 * 4
            file.create_dataset("data", shape=(4, 16, 3), dtype="f4", external=[(str(tmp_path / "raw"), 0, size)])
        else:
            layout = h5py.VirtualLayout(shape=(4, 16, 3), dtype="f4")
            layout[...] = h5py.VirtualSource(str(other), "data", shape=(4, 16, 3))
            file.create_virtual_dataset("data", layout)
    with pytest.raises(InputError, match=r"some\.h5: field 'data' .*store the data in this file"):
        load(tmp_path / "some.h5", "all", points=16)
    assert len(load(other, "all", points=16)) == 4
