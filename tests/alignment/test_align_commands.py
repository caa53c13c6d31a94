"""`reqnn align` and `reqnn bench-align`: what they read, write, print and refuse."""

import json

import numpy as np
import pytest
import torch
import trimesh

from equivariance import generator, rotation_matrix
from reqnn.bench.alignment import ICP, OURS, PCA, run
from reqnn.bench.alignment_report import classes_table, ways_table
from reqnn.cli import main
from reqnn.data.dataset import PointClouds
from surfaces import surfaces


@pytest.fixture
def files(tmp_path):
    """A cloud, and the same turned, moved and reordered; the rotation."""
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
    turned = np.eye(4)
    turned[:3, :3] = rotation.numpy()
    mesh.copy().apply_transform(turned).export(folder / "b.stl")
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


def clouds():
    points = surfaces(6, 320, seed=1)
    points = points + 0.5 * points[..., :1] ** 2 * torch.tensor([0.0, 1.0, 0.4]) + 0.3 * points[..., 1:2].clamp(min=0)  # bent
    return PointClouds(points, torch.tensor([0, 0, 0, 1, 1, 1]), ("odd", "even"), "some", "test")


def test_the_experiment_and_its_tables():
    result = run(clouds(), seed=0, network=None, tell=lambda text: None)
    assert result.copies.errors.max() < 1e-5
    assert set(result.samplings) >= {OURS, PCA, ICP}
    assert result.samplings[OURS].errors.median() < result.samplings[ICP].errors.median()
    ways, classes = ways_table(result), classes_table(result)
    assert ways.records[0]["median"] < 0.01
    assert [row[0].text for row in classes.rows] == ["odd", "even"]
    again = run(clouds(), seed=0, network=None, tell=lambda text: None)
    torch.testing.assert_close(again.samplings[OURS].errors, result.samplings[OURS].errors)


def test_bench_align(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("reqnn.data.load", lambda *args, **kwargs: clouds())
    arguments = ["bench-align", "--data", "some", "--limit", "2", "--network-shapes", "0", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "two copies" in capsys.readouterr().out
    record = json.loads((tmp_path / "align.json").read_text())
    assert record["settings"]["shapes"] == 4
    assert record["rows"][0]["median"] < 0.01
    assert (tmp_path / "align.png").stat().st_size > 10_000
    assert "## Different samplings" in (tmp_path / "align.md").read_text()
