"""The cloud on the page: rotated, shuffled, thinned; from the gallery, a file or an upload."""

import numpy as np
import pytest
import torch

from reqnn import quaternion
from reqnn.data.scanned import scanned
from reqnn.errors import InputError
from reqnn.view import shown as shown_module
from reqnn.view.shown import Shown, read_upload, scanned_object, scanned_objects

ROTATION = quaternion.random_matrix(generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.fixture
def teapot():
    return scanned_object("teapot", 256)


def test_an_object_is_the_cloud_of_the_test_set_on_its_surface(teapot):
    clouds = scanned("test", 256, copies=1)
    torch.testing.assert_close(teapot.points, clouds.points[clouds.classes.index("teapot")], atol=1e-6, rtol=0)
    assert teapot.label == "teapot"
    assert len(scanned_objects().names) == 38
    nearest = torch.cdist(teapot.points, teapot.surface).amin(1)
    assert nearest.max() < 0.08  # noise, in the same frame
    assert torch.cdist(teapot.points * 1.2, teapot.surface).amin(1).max() > 0.08


def test_networks_are_given_the_points_rotated(teapot):
    turned = teapot.rotated(ROTATION)
    torch.testing.assert_close(turned.given()[0], (teapot.points.double() @ ROTATION.T).float())
    assert turned.upright().given().equal(teapot.given())


def test_shuffled_points_are_the_same_in_another_order(teapot):
    other = teapot.rotated(ROTATION).shuffled()
    assert not other.order.equal(teapot.order)
    assert other.order.sort().values.equal(teapot.order)
    assert other.given()[0].equal(teapot.rotated(ROTATION).given()[0, other.order])


def test_points_are_dropped_again_and_again_until_all_are_back(teapot):
    once = teapot.without(0.3)
    twice = once.without(0.3)
    assert (len(once.order), len(twice.order)) == (179, 125)
    assert set(twice.order.tolist()) < set(once.order.tolist())
    assert once.order.equal(once.order.sort().values)
    assert twice.whole().given().equal(teapot.given())


def test_an_upload_is_parsed_by_the_loaders_under_its_own_name():
    text = "\n".join(" ".join(map(str, row)) for row in np.random.default_rng(0).random((50, 3)))
    read = read_upload("../../my scan.xyz", text.encode(), 32)
    assert read.points.shape == (32, 3)
    assert (read.name, read.label) == ("../../my scan.xyz", None)
    assert isinstance(read, Shown)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xyz", b"1 2 3\n4 five 6", r"^a\.xyz cannot be read as \.xyz"),
        (
            "b.ply",
            b"ply\nformat ascii 1.0\nelement vertex 9\nend_header\n",
            r"^b\.ply cannot be read as \.ply, or is damaged or truncated",
        ),
        ("c.exe", b"MZ", r"files ending in \.exe are not read"),
        ("d\0.npy\0", b"x", r"are not read"),
        ("", b"", "files ending in nothing are not read"),
    ],
)
def test_an_upload_that_cannot_be_read(name, content, said):
    with pytest.raises(InputError, match=said):
        read_upload(name, content, 32)


def test_an_upload_is_limited_in_size(monkeypatch):
    monkeypatch.setattr(shown_module, "LARGEST", 5_000_000)
    with pytest.raises(InputError, match=r"big\.xyz has 6 MB; at most 5 MB are read"):
        read_upload("big.xyz", bytes(6_000_000), 32)
