import hashlib

import pytest
import torch
from torch.utils.data import DataLoader

from reqnn.data import PROTOCOLS, PointClouds, RotatedTestSet, rotated_test_set
from reqnn.errors import InputError


def make(count=5, points=12):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    return PointClouds(torch.randn(count, points, 3, generator=generator), labels, ("a", "b"), "mine", "test")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_matrices_are_rotations_in_float64(protocol):
    matrices = rotated_test_set(make(), protocol).matrices
    assert matrices.shape == (5, 10, 3, 3)
    assert matrices.dtype == torch.float64
    assert (matrices @ matrices.mT - torch.eye(3, dtype=torch.float64)).abs().max() < 1e-14
    assert (torch.linalg.det(matrices) - 1).abs().max() < 1e-14
    if protocol in "yz":
        assert torch.equal(matrices[..., "xyz".index(protocol), "xyz".index(protocol)], torch.ones(5, 10, dtype=torch.float64))


def test_the_same_set_on_every_machine():
    """The bits of the matrices: people who test with this seed test on this set."""
    matrices = rotated_test_set(make(), copies=10, seed=0).matrices
    assert matrices[0, 0, 0].tolist() == [0.17955531578466621, -0.04915747563163492, 0.9825189215292468]
    assert hashlib.sha256(matrices.numpy().tobytes()).hexdigest()[:16] == "abd8c80fceb7483f"


def test_a_cloud_has_its_rotations_whatever_else_is_there():
    few, many = rotated_test_set(make(3), copies=4), rotated_test_set(make(8), copies=10)
    assert torch.equal(few.matrices, many.matrices[:3, :4])
    assert not torch.equal(few.matrices, rotated_test_set(make(3), copies=4, seed=1).matrices)


def test_rotations_are_uniform():
    matrices = rotated_test_set(make(500, 1), copies=20).matrices.flatten(0, 1)
    assert matrices.mean(0).abs().max() < 0.03
    assert torch.allclose(matrices.square().mean(0), torch.full((3, 3), 1 / 3, dtype=torch.float64), atol=0.015)
    vertical = rotated_test_set(make(500, 1), "y", copies=20).matrices.flatten(0, 1)
    assert vertical[:, 0].mean(0).abs().max() < 0.03


def test_items_and_batches_agree():
    clouds = make()
    rotated = rotated_test_set(clouds, copies=3)
    assert len(rotated) == 15
    batches = list(rotated.batches(4))
    points, labels, index = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert index.tolist() == list(range(15))
    assert labels.tolist() == [label for label in clouds.labels.tolist() for _ in range(3)]
    for i, (one, label) in enumerate(rotated):
        assert torch.equal(one, points[i])
        assert label == clouds.labels[i // 3]
        exact = clouds.points[i // 3].double() @ rotated.matrices[i // 3, i % 3].T
        assert torch.equal(one, exact.float()) or torch.allclose(one.double(), exact, atol=1e-7)
    loaded = torch.cat([batch for batch, _ in DataLoader(rotated, batch_size=4)])
    assert torch.equal(loaded, points)
    with pytest.raises(IndexError):
        rotated[15]
    with pytest.raises(InputError, match="batch size"):
        next(rotated.batches(0))


def test_nr_repeats_the_clouds_bit_for_bit():
    clouds = make()
    rotated = rotated_test_set(clouds, "NR", copies=2)
    assert torch.equal(rotated[5][0], clouds.points[2])


def test_save_and_load(tmp_path):
    clouds = make()
    rotated = rotated_test_set(clouds, "AR", copies=3, seed=7)
    path = rotated.save(tmp_path / "deep" / "set.safetensors")
    again = RotatedTestSet.load(path, clouds)
    assert torch.equal(again.matrices, rotated.matrices)
    assert (again.protocol, again.seed, again.copies) == ("AR", 7, 3)
    assert torch.equal(again[4][0], rotated[4][0])
    assert [file.name for file in path.parent.iterdir()] == ["set.safetensors"]


def test_loading_for_other_clouds_is_refused(tmp_path):
    path = rotated_test_set(make()).save(tmp_path / "set.safetensors")
    with pytest.raises(InputError, match=r"other clouds: mine test, 5 clouds; given mine test, \(5, 13, 3\)"):
        RotatedTestSet.load(path, make(points=13))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x80\x04pickle"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "set.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as a rotated test set"):
        RotatedTestSet.load(path, make())
    with pytest.raises(InputError, match="cannot be read as a rotated test set"):
        RotatedTestSet.load(tmp_path / "missing", make())


def test_weights_are_no_test_set(tmp_path):
    from safetensors.torch import save_file

    save_file({"matrices": torch.zeros(2)}, tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match="format"):
        RotatedTestSet.load(tmp_path / "weights.safetensors", make())


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (torch.zeros(5, 2, 3, 3, dtype=torch.float64), "no rotation"),
        (-torch.eye(3, dtype=torch.float64).expand(5, 2, 3, 3), "no rotation"),
        (torch.eye(3).expand(5, 2, 3, 3), "float64"),
        (torch.eye(3, dtype=torch.float64).expand(4, 2, 3, 3), "5 clouds need"),
    ],
)
def test_bad_matrices(matrices, message):
    with pytest.raises(InputError, match=message):
        RotatedTestSet(make(), matrices)


@pytest.mark.parametrize("arguments", [{"protocol": "x"}, {"copies": 0}, {"seed": -1}])
def test_bad_arguments(arguments):
    with pytest.raises(InputError):
        rotated_test_set(make(), **arguments)


def test_an_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        rotated_test_set(make()).save(tmp_path / "file" / "set.safetensors")
