from dataclasses import replace

import pytest
import torch
from written_data import clouds, write_hdf5

from reqnn.data import data_root, list_datasets, load
from reqnn.data.loading import LAYOUTS, keep_classes
from reqnn.data.sets import SETS
from reqnn.errors import InputError


def test_names():
    assert list_datasets() == [
        "digits",
        "scanned",
        "scanned-cut",
        "modelnet40",
        "modelnet10",
        "3d-mnist",
        "shapenet-part",
        "shapenet",
        "scanobjectnn",
    ]


def test_the_embedded_digits():
    found = load("digits", "test", 32)
    assert found.points.shape == (360, 32, 3)
    assert (found.name, found.split, found.up) == ("digits", "test", "y")
    assert found.classes == tuple("0123456789")
    with pytest.raises(InputError, match="split is 'validation'; it is one of train, test; a validation set comes from"):
        load("digits", "validation", 32)


@pytest.mark.parametrize("name", [name for name, known in SETS.items() if known.embedded is None])
def test_missing_data_says_what_to_get_and_where_to_put_it(name, tmp_path):
    with pytest.raises(InputError) as caught:
        load(name, "train", root=tmp_path)
    message = str(caught.value)
    assert "http" in message
    assert str(tmp_path / SETS[name].folders[0]) in message
    assert "REQNN_DATA" in message
    assert "now not set" in message


def test_the_root_comes_from_the_argument_the_variable_or_the_cache(tmp_path, monkeypatch):
    assert data_root().name == "reqnn"
    monkeypatch.setenv("REQNN_DATA", str(tmp_path / "variable"))
    assert data_root() == tmp_path / "variable"
    assert data_root(tmp_path / "argument") == tmp_path / "argument"
    with pytest.raises(InputError, match="variable"):
        load("modelnet40", "train")
    monkeypatch.setenv("REQNN_DATA", "")
    assert data_root().name == "reqnn"


def test_a_known_folder_is_known_by_path_too(pointnet_folder, tmp_path):
    folder = pointnet_folder.rename(tmp_path / "3d_mnist")
    by_path, by_name = load(folder, "train", 16), load("3d-mnist", "train", 16, root=tmp_path)
    assert (by_path.name, by_path.up) == (by_name.name, by_name.up) == ("3d-mnist", "z")
    assert torch.equal(by_path.points, by_name.points)
    assert load(folder, "train", 16, up="x").up == "x"


def test_modelnet10_from_modelnet40(tmp_path):
    names = ["airplane", *SETS["modelnet10"].only[::-1], "vase"]
    folder = tmp_path / "modelnet40_ply_hdf5_2048"
    labels = torch.arange(24).remainder(12)[:, None].numpy().astype("uint8")
    write_hdf5(folder / "ply_data_train0.h5", data=clouds(24), label=labels)
    (folder / "shape_names.txt").write_text("\n".join(names))
    whole, part = (load(name, "train", 16, root=tmp_path) for name in ("modelnet40", "modelnet10"))
    assert part.classes == SETS["modelnet10"].only
    assert part.counts == dict.fromkeys(part.classes, 2)
    assert part.name == "modelnet10"
    for points, label in part:
        at = int((whole.points == points).all(-1).all(-1).nonzero()[0])
        assert whole.classes[whole.labels[at]] == part.classes[label]
    (folder / "shape_names.txt").write_text("\n".join(f"c{i}" for i in range(12)))
    with pytest.raises(InputError, match="its files hold no class bathtub, bed"):
        load("modelnet10", "train", 16, root=tmp_path)


def test_modelnet10_meshes_come_first(tmp_path):
    from written_data import box

    for name in SETS["modelnet10"].only:
        (tmp_path / "ModelNet10" / name / "train").mkdir(parents=True)
        (tmp_path / "ModelNet10" / name / "train" / "a.off").write_text(box())
    found = load("modelnet10", "train", 8, root=tmp_path)
    assert found.up == "z"
    assert len(found) == 10


def test_keeping_all_classes_changes_nothing(pointnet_folder):
    whole = load(pointnet_folder, "train", 16)
    assert keep_classes(whole, None) is whole
    assert keep_classes(replace(whole), whole.classes).classes == whole.classes


def test_what_is_not_known(tmp_path):
    with pytest.raises(
        InputError,
        match="'modelnet' is neither a data set nor a path; the data sets are digits, scanned, scanned-cut, modelnet40",
    ):
        load("modelnet", "train")
    (tmp_path / "notes.md").write_text("notes")
    for path in (tmp_path, tmp_path / "notes.md"):
        with pytest.raises(InputError, match="no known layout") as caught:
            load(path, "train")
        assert all(layout.looks_for in str(caught.value) for layout in LAYOUTS)
    with pytest.raises(InputError, match=r"it holds notes\.md"):
        load(tmp_path, "train")


@pytest.mark.parametrize(
    "settings",
    [{"points": 0}, {"seed": -1}, {"sampling": "even"}, {"short": "pad"}, {"test_fraction": 1.0}, {"split_seed": -1}],
)
def test_bad_settings(settings, pointnet_folder):
    with pytest.raises(InputError, match=next(iter(settings))):
        load(pointnet_folder, "train", **{"points": 16, **settings})


def test_an_unreadable_folder(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.glob", refuse)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path, "train")
