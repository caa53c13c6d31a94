import numpy as np
import pytest

from experiments.stress.samples import pcd
from reqnn.data.pcd import lzf_unpacked, parse_pcd
from reqnn.data.shape_file import read_shape
from reqnn.errors import InputError, MissingPackageError
from reqnn.extras import EXTRAS

CLOUD = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)


@pytest.mark.parametrize("storage", ["ascii", "binary", "binary_compressed"])
def test_the_three_kinds_of_storage(storage, tmp_path):
    path = tmp_path / "some.pcd"
    path.write_bytes(pcd(CLOUD, storage))
    assert np.array_equal(read_shape(path).vertices.astype(np.float32), CLOUD)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"some\.pcd cannot be read as \.pcd, or is damaged or truncated"):
        read_shape(path)


def test_lzf():
    """By hand: literals, a copy, one that overlaps itself, one with a long length."""
    assert lzf_unpacked(b"\x02abc" + bytes([1 << 5, 2]) + b"\x00d", 7) == b"abcabcd"
    assert lzf_unpacked(b"\x00a" + bytes([7 << 5, 41, 0]), 51) == b"a" * 51
    for damaged in (bytes([1 << 5, 5]), b"\x02abc" + bytes([1 << 5, 9])):
        with pytest.raises(ValueError, match="damaged"):
            lzf_unpacked(damaged, 6)


def test_an_organised_cloud_with_padding_and_normals():
    head = "FIELDS x _ y z normal_x normal_y normal_z _\nSIZE 4 1 4 8 4 4 4 2\nTYPE F U F F F F F U\nCOUNT 1 3 1 1 1 1 1 2\n"
    dtype = [("x", "f4"), ("a", "u1", 3), ("y", "f4"), ("z", "f8"), ("n", "f4", 3), ("b", "u2", 2)]
    rows = np.zeros(6, dtype)
    rows["x"], rows["y"], rows["z"] = CLOUD[:6].T
    rows["n"] = CLOUD[6:12]
    rows["x"][4] = np.nan
    points, normals = parse_pcd(f"{head}WIDTH 3\nHEIGHT 2\nPOINTS 6\nDATA binary\n".encode() + rows.tobytes())
    assert np.array_equal(normals, CLOUD[6:12])
    assert np.isnan(points[4, 0])
    assert np.array_equal(points[:4].astype(np.float32), CLOUD[:4])


def test_las(tmp_path):
    laspy = pytest.importorskip("laspy")
    scan = laspy.LasData(laspy.LasHeader(point_format=3, version="1.2"))
    scan.header.scales, scan.header.offsets = np.full(3, 0.001), np.array([5e6, 4e5, 0])
    places = CLOUD.astype(np.float64) + scan.header.offsets
    scan.x, scan.y, scan.z = places.T
    for name in ("some.las", "some.laz"):
        scan.write(tmp_path / name)
        assert np.abs(read_shape(tmp_path / name).vertices - places).max() < 0.0006


def test_las_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "laspy", None)
    (tmp_path / "some.las").write_bytes(b"LASF")
    with pytest.raises(MissingPackageError, match=r"pip install 'reqnn\[las\]'"):
        read_shape(tmp_path / "some.las")
    assert EXTRAS["laspy"] == "las"
