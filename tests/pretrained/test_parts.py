"""`reqnn predict --category`: parts of files in any orientation, as labelled PLY."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import trimesh

from reqnn.cli import main
from reqnn.data.dataset import PointClouds
from reqnn.pretrained.parts import COLOURS, nearest, write_labelled_ply
from reqnn.quaternion import random_matrix
from reqnn.train import TrainConfig, fit

NAMES = ("Post 1", "Post 2", "Ball 1")


def objects(count: int, seed: int) -> PointClouds:
    """Posts, whose upper third is another part, and balls."""
    random = torch.Generator().manual_seed(seed)
    points = torch.nn.functional.normalize(torch.randn(count, 60, 3, generator=random), dim=-1)
    labels = torch.arange(count) % 2
    post = points * torch.tensor([0.15, 0.15, 0.0])
    height = torch.rand(count, 60, generator=random)
    post[..., 2] = 2 * height**2 - 0.7  # more points below: top and bottom differ
    points = torch.where(labels[:, None, None] == 0, post, points)
    parts = torch.where(labels[:, None] == 0, (post[..., 2] > 0.5).long(), 2)
    return PointClouds(points, labels, ("Post", "Ball"), "objects", parts=parts, part_names=NAMES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"width": 1 / 8, "npoint": [24, 8], "radius": [0.5, 1.0], "nsample": [8, 8], "dropout": 0.0}
    config = TrainConfig(
        model="pointnet2_parts", options=options,
        equivariant=True, rules="full", task="segmentation", points=60, batch=16, epochs=16, optimizer="adamw", lr=0.01,
        schedule="onecycle", accelerator="cpu", out=str(tmp_path_factory.mktemp("run") / "parts"),
    )  # fmt: skip
    fit(config, objects(48, 0), objects(16, 1), quiet=True)
    return config.folder


def read_ply(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, colours and labels, read by another program."""
    cloud = trimesh.load(path)
    labels = cloud.metadata["_ply_raw"]["vertex"]["data"]["label"]
    return np.asarray(cloud.vertices), np.asarray(cloud.colors)[:, :3], np.asarray(labels).ravel()


def test_a_rotated_file_gets_the_same_parts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    test = objects(2, 5)
    cloud, parts = 30 * test.points[0].double().numpy() + 7, test.parts[0].numpy()
    rotation = random_matrix(1, torch.Generator().manual_seed(0), torch.float64)[0].numpy()
    np.savetxt(tmp_path / "upright.xyz", cloud)
    np.savetxt(tmp_path / "rotated.xyz", cloud @ rotation.T)
    words = [str(tmp_path / "upright.xyz"), str(tmp_path / "rotated.xyz"), "--weights", str(run), "--category", "Post"]
    assert main(["predict", *words, "--out", str(tmp_path / "out"), "--json", str(tmp_path / "answers.json")]) == 0
    assert "Post 1" in capsys.readouterr().out
    points, colours, labels = read_ply(tmp_path / "out" / "upright.parts.ply")
    np.testing.assert_allclose(points, cloud, atol=1e-6)
    assert (labels == parts).mean() > 0.8
    assert (colours == np.array(COLOURS)[labels]).all()
    turned = read_ply(tmp_path / "out" / "rotated.parts.ply")
    np.testing.assert_allclose(turned[0], cloud @ rotation.T, atol=1e-6)
    assert (turned[2] == labels).all()
    record = json.loads((tmp_path / "answers.json").read_text())["files"][0]
    assert sum(record["parts"].values()) == pytest.approx(1)


def test_meshes_and_larger_clouds(run: Path, tmp_path: Path) -> None:
    trimesh.creation.icosphere(subdivisions=1).export(tmp_path / "ball.ply")
    np.savetxt(tmp_path / "many.xyz", np.random.default_rng(0).normal(size=(500, 3)))
    words = [str(tmp_path / "ball.ply"), str(tmp_path / "many.xyz"), "--weights", str(run), "--category", "Ball"]
    assert main(["predict", *words, "--out", str(tmp_path)]) == 0
    assert len(read_ply(tmp_path / "ball.parts.ply")[2]) == 2048
    assert (read_ply(tmp_path / "many.parts.ply")[2] == 2).all()
    assert len(read_ply(tmp_path / "many.parts.ply")[2]) == 500


def test_mistakes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "bad.xyz").write_text("1 2\n")
    np.savetxt(tmp_path / "good.xyz", objects(1, 3).points[0].numpy())
    words = [str(tmp_path / "bad.xyz"), str(tmp_path / "good.xyz"), "--weights", str(run), "--out", str(tmp_path)]
    assert main(["predict", *words, "--category", "Post"]) == 1
    assert (tmp_path / "good.parts.ply").exists()
    assert main(["predict", *words, "--category", "Chair"]) == 2
    assert "category" in capsys.readouterr().err
    assert main(["predict", *words]) == 2
    assert "--category" in capsys.readouterr().err


def test_nearest_and_comments(tmp_path: Path) -> None:
    points = torch.randn(9000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(nearest(points, points[:50])[:50], torch.arange(50))
    written = write_labelled_ply(tmp_path / "a.ply", points[:3].numpy(), torch.tensor([1, 1, 2]), NAMES)
    head = written.read_bytes().partition(b"end_header")[0].decode()
    assert "comment label 1: Post 2" in head
    assert "Post 1" not in head
