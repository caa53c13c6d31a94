"""`reqnn align`: what it reads, writes, prints and refuses."""

import json

import numpy as np
import pytest
import torch
import trimesh

from equivariance import generator, rotation_matrix
from reqnn.cli import main
from reqnn.data.shape_file import read_shape
from surfaces import surfaces


@pytest.fixture
def files(tmp_path):
    """A cloud, and the same rotated, moved and reordered; the rotation."""
    cloud, rotation = surfaces(1, 300, seed=3)[0].double(), rotation_matrix(4)
    order = torch.randperm(300, generator=generator(1))
    np.save(tmp_path / "a.npy", cloud.numpy())
    trimesh.PointCloud((cloud[order] @ rotation.T + 2).numpy()).export(tmp_path / "b.ply")
    return tmp_path, cloud, rotation


def test_align_writes_the_moved_cloud_and_the_matrix(files, capsys):
    folder, cloud, rotation = files
    assert main(["align", str(folder / "a.npy"), str(folder / "b.ply"), "--out", str(folder / "out")]) == 0
    said = capsys.readouterr().out
    assert "rotation " in said
    assert "confidence   1.00" in said
    matrix = np.loadtxt(folder / "out" / "matrix.txt")
    np.testing.assert_allclose(matrix[:3, :3], rotation.numpy(), atol=1e-5)
    np.testing.assert_allclose(matrix[:3, 3], 2, atol=1e-5)
    moved = trimesh.load(folder / "out" / "aligned.ply").vertices
    np.testing.assert_allclose(moved, (cloud @ rotation.T + 2).numpy(), atol=1e-5)
    record = json.loads((folder / "out" / "alignment.json").read_text())
    np.testing.assert_allclose(record["matrix"], matrix)
    assert record["ambiguous"] is False
    assert {"torch", "reqnn"} <= set(record["versions"])


def test_align_meshes_as_json(files, capsys):
    folder, _, rotation = files
    mesh = trimesh.creation.box((3, 2, 1))
    mesh.apply_translation((0.2, 0, 0))
    mesh = trimesh.util.concatenate([mesh, trimesh.creation.box((1, 0.5, 0.4)).apply_translation((1.2, 0.9, 0.6))])
    mesh.export(folder / "a.off")
    rotated = np.eye(4)
    rotated[:3, :3] = rotation.numpy()
    mesh.copy().apply_transform(rotated).export(folder / "b.stl")
    arguments = ["align", str(folder / "a.off"), str(folder / "b.stl"), "--out", str(folder / "out"), "--json", "-", "--refine"]
    assert main(arguments) == 0
    record = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(np.array(record["matrix"])[:3, :3], rotation.numpy(), atol=0.1)
    assert len(trimesh.load(folder / "out" / "aligned.ply").faces) == len(mesh.faces)


def test_align_says_what_is_wrong(files, capsys):
    folder = files[0]
    assert main(["align", str(folder / "a.npy"), str(folder / "none.ply")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    (folder / "out").write_text("a file")
    assert main(["align", str(folder / "a.npy"), str(folder / "b.ply"), "--out", str(folder / "out")]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_cloud_far_from_the_origin_keeps_its_points(files, capsys):
    """5,000 km away float32 has steps of half a metre; the object has a size of one."""
    folder, cloud, rotation = files
    np.save(folder / "a.npy", cloud.double().numpy() + np.array([5e6, -4e5, 0]))
    there = cloud.double() @ rotation.double().T + torch.tensor([4e6, 3e6, 1e5], dtype=torch.float64)
    np.savetxt(folder / "b.xyz", there.numpy(), fmt="%.9f")
    arguments = ["align", str(folder / "a.npy"), str(folder / "b.xyz"), "--out", str(folder / "out"), "--json", "-"]
    assert main(arguments) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["relative_residual"] < 1e-6
    moved = read_shape(folder / "out" / "aligned.ply").vertices
    np.testing.assert_allclose(moved, there.numpy(), rtol=0, atol=1e-6)


def test_sizes_that_differ(files, capsys):
    folder, cloud, rotation = files
    np.save(folder / "b.npy", 1000 * (cloud.double() @ rotation.double().T).numpy())
    arguments = ["align", str(folder / "a.npy"), str(folder / "b.npy"), "--out", str(folder / "out")]
    assert main(arguments) == 2
    assert "--scale" in capsys.readouterr().err
    assert main([*arguments, "--scale"]) == 0
    shown = capsys.readouterr().out
    assert "scale        1000" in shown
    assert "% of the object's radius" in shown
