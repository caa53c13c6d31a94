"""The loaders on the real data sets, where they are there."""

import time

import torch

from reqnn.data import duplicate_groups, load, read_cloud, rotated_test_set, split_validation


def test_modelnet40(real_data):
    start = time.perf_counter()
    train = load("modelnet40", "train", root=real_data)
    assert time.perf_counter() - start < 20  # about a second on a quiet machine
    test = load("modelnet40", "test", root=real_data)
    assert train.points.shape == (9843, 1024, 3)
    assert test.points.shape == (2468, 1024, 3)
    assert train.classes == test.classes
    assert len(train.classes) == 40
    assert train.up == "y"
    assert min(train.counts.values()) > 0
    assert torch.allclose(train.points.norm(dim=-1).amax(1), torch.ones(9843), atol=1e-5)
    rest, validation = split_validation(train)
    assert len(rest) + len(validation) == 9843
    assert all(abs(validation.counts[name] - count / 10) <= 1 for name, count in train.counts.items())


def test_modelnet10_is_part_of_modelnet40(real_data):
    test = load("modelnet10", "test", root=real_data)
    assert len(test) == 908
    assert set(test.counts.values()) == {50, 86, 100}
    assert len(load("modelnet10", "train", 64, root=real_data)) == 3991


def test_3d_mnist(real_data):
    train, test = load("3d-mnist", "train", root=real_data), load("3d-mnist", "test", root=real_data)
    assert train.points.shape == (5000, 1024, 3)
    assert test.points.shape == (1000, 1024, 3)
    assert train.up == "z"
    assert train.classes == tuple("0123456789")
    assert len(duplicate_groups(test.points).unique()) == 1000


def test_3d_mnist_in_the_kaggle_layout(real_data, tmp_path):
    found = load(real_data / "3d_mnist" / "kaggle_layout_sample.h5", "all", cache=tmp_path)
    assert found.points.shape == (12, 1024, 3)
    assert found.labels.tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9, 0, 6]
    test = load("3d-mnist", "test", root=real_data)
    assert test.labels[:12].tolist() == found.labels.tolist()
    # Other points of the same digits: the same extents up to the draw
    assert torch.allclose(found.points.amax(1), test.points[:12].amax(1), atol=0.1)


def test_shapenet_part(real_data):
    sets = {split: load("shapenet-part", split, 512, root=real_data) for split in ("train", "val", "test")}
    assert {split: len(one) for split, one in sets.items()} == {"train": 4895, "val": 752, "test": 2874}
    test = sets["test"]
    assert len(test.classes) == 16
    assert len(test.part_names) == 50
    assert [test.part_names[i] for i in (0, 4, 12, 36, 47)] == ["Airplane 1", "Bag 1", "Chair 1", "Mug 1", "Table 1"]
    assert test.parts.shape == (2874, 512)
    assert set(test.parts.unique().tolist()) == set(range(50))


def test_meshes(real_data, tmp_path):
    found = load(real_data / "meshes", "all", 256, cache=tmp_path)
    assert found.points.shape == found.normals.shape == (120, 256, 3)
    assert found.counts == dict.fromkeys(found.classes, 3)
    assert found.up == "z"
    file = sorted((real_data / "meshes" / "airplane").iterdir())[0]
    assert torch.equal(found.points[0], read_cloud(file, 256))
    train, test = (load(real_data / "meshes", split, 256, cache=tmp_path) for split in ("train", "test"))
    assert test.counts == dict.fromkeys(test.classes, 1)
    assert len(train) == 80


def test_the_papers_test_set(real_data):
    test = load("modelnet40", "test", root=real_data)
    rotated = rotated_test_set(test)
    assert len(rotated) == 24680
    assert torch.equal(rotated_test_set(test.subset(range(5))).matrices, rotated.matrices[:5])
    points, labels, _ = next(rotated.batches(20))
    assert torch.allclose(points.norm(dim=-1), test.points[:2].repeat_interleave(10, 0).norm(dim=-1), atol=1e-6)
    assert labels.tolist() == test.labels[:2].repeat_interleave(10).tolist()
