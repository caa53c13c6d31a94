import numpy as np
import pytest
import torch
import trimesh
from written_data import clouds

from reqnn.data import read_cloud
from reqnn.data.sampling import stream
from reqnn.data.shape_file import sample_surface
from reqnn.errors import InputError


def test_a_mesh_is_sampled_on_its_surface(box_file):
    cloud = read_cloud(box_file, 500, normalize=False)
    assert cloud.shape == (500, 3)
    assert cloud.dtype == torch.float32
    size = torch.tensor([1.0, 2.0, 3.0])
    on_a_face = ((cloud.abs() < 1e-6) | ((cloud - size).abs() < 1e-6)).any(1)
    assert on_a_face.all()
    assert ((cloud > -1e-6) & (cloud < size + 1e-6)).all()


def test_faces_get_points_by_their_area():
    mesh = trimesh.creation.box(extents=(1, 2, 3))
    points, normals = sample_surface(mesh.vertices, mesh.faces, 40000, stream("surface", 0))
    shares = np.abs(normals).mean(0) * 22 / 2  # areas of the faces along x, y, z: 6, 3, 2
    assert np.allclose(shares, (6, 3, 2), rtol=0.03)
    inside = points[np.abs(normals[:, 0]) > 0.5][:, 1:] / (2, 3) + 0.5  # evenly over a face
    counts = np.histogram2d(*inside.T, bins=4, range=((0, 1), (0, 1)))[0]
    assert np.abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())
    assert np.allclose(np.einsum("ij,ij->i", normals, normals), 1)


def test_faces_without_area_get_no_points():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [9, 9, 9.0]])
    faces = np.array([[3, 3, 3], [0, 1, 2], [3, 3, 0]])
    points, normals = sample_surface(vertices, faces, 200, stream("surface", 0))
    assert (points[:, 2] == 0).all()
    assert np.isfinite(normals).all()
    with pytest.raises(InputError, match=r"cup\.off: its 1 faces have no area"):
        sample_surface(vertices, faces[:1], 10, stream("surface", 0), "cup.off")


def test_normalised_by_default(box_file):
    cloud = read_cloud(box_file, 200)
    assert cloud.mean(0).abs().max() < 1e-6
    assert float(cloud.norm(dim=1).max()) == pytest.approx(1, abs=1e-6)


def test_the_bytes_and_the_seed_decide_not_the_name(box_file, tmp_path):
    copy = tmp_path / "elsewhere" / "copy.off"
    copy.parent.mkdir()
    copy.write_bytes(box_file.read_bytes())
    assert torch.equal(read_cloud(box_file, 64), read_cloud(copy, 64))
    assert not torch.equal(read_cloud(box_file, 64), read_cloud(box_file, 64, seed=1))
    copy.write_bytes(box_file.read_bytes() + b"# another file\n")
    assert not torch.equal(read_cloud(box_file, 64), read_cloud(copy, 64))


def test_a_cloud_is_thinned_out_or_repeated(tmp_path):
    cloud = clouds(1, 30)[0]
    np.save(tmp_path / "cloud.npy", cloud)
    assert np.array_equal(read_cloud(tmp_path / "cloud.npy", 30, normalize=False).numpy(), cloud)
    assert np.array_equal(read_cloud(tmp_path / "cloud.npy", 5, normalize=False, sampling="first").numpy(), cloud[:5])
    with pytest.raises(InputError, match=r"cloud\.npy holds 30 points; 31 are asked for"):
        read_cloud(tmp_path / "cloud.npy", 31)
    assert len(read_cloud(str(tmp_path / "cloud.npy"), 31, short="repeat").unique(dim=0)) == 30


def test_one_point(tmp_path):
    np.save(tmp_path / "point.npy", np.ones((1, 3)))
    assert read_cloud(tmp_path / "point.npy", 1, normalize=False).tolist() == [[1, 1, 1]]
    with pytest.raises(InputError, match=r"point\.npy: its 1 points coincide"):
        read_cloud(tmp_path / "point.npy", 1)


def test_bad_arguments(box_file):
    with pytest.raises(InputError, match="points is 0"):
        read_cloud(box_file, 0)
    with pytest.raises(InputError, match="seed is -1"):
        read_cloud(box_file, 4, -1)
