"""`python -m experiments autoencoders` with tiny networks on the embedded digits."""

import json
from pathlib import Path

import pytest
import torch

from experiments.__main__ import main
from experiments.autoencoders import command as autoencoders
from experiments.autoencoders import mirror
from experiments.autoencoders.cells import FILE, cells
from experiments.autoencoders.pictures import shown_classes
from reqnn.data import load
from reqnn.data.dataset import PointClouds
from reqnn.train import TrainConfig

TINY = {"latent": 6, "width": 1 / 32, "encoder_options": {"k": 4, "extra_conv": False}}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**autoencoders.SETTINGS, "options": TINY, "points": 32, "limit": 80, "batch": 16, "threads": 1}
    flat = {"equivariant": True, "options": {**TINY, "cross_product": False}}
    monkeypatch.setattr(autoencoders, "SETTINGS", settings)
    monkeypatch.setattr(autoencoders, "NETWORKS", {**autoencoders.NETWORKS, autoencoders.FLAT: flat})


@pytest.mark.usefixtures("tiny")
def test_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ["autoencoders", "--data", "digits", "--epochs", "1", "--limit", "10", "--copies", "1", "--emd", "2"]
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert "off the mirror plane" in " ".join(capsys.readouterr().out.split())
    names = ["autoencoder.json", "autoencoder.md", "autoencoder.png", "autoencoder_latents.png"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    original, rotated, revised, flat = json.loads((tmp_path / "out" / "autoencoder.json").read_text())["rows"]
    assert rotated["config"]["protocol"] == "AR"
    assert revised["results"][1]["chamfer_change"] < 1e-9 < original["results"][1]["chamfer_change"]
    for record in flat["mirror_symmetric"]:
        assert record["in_plane"] < 1e-12
    for record in revised["mirror_symmetric"]:
        assert 0 < record["latent"] < 1
    assert main(words) == 0  # trained already: as it is


def test_an_object_is_made_exactly_symmetric() -> None:
    clouds = load("digits", "test", points=64)
    cloud, axis = mirror.symmetric_cloud(clouds, "0", 40)
    assert cloud.shape == (40, 3)
    assert axis != 1  # y is up
    signs = torch.ones(3, dtype=torch.float64)
    signs[axis] = -1
    assert torch.cdist(cloud, cloud * signs).amin(1).max() == 0


def test_a_class_with_few_points_on_one_side() -> None:
    points = torch.randn(1, 9, 3, generator=torch.Generator().manual_seed(0))
    clouds = PointClouds(points, torch.zeros(1, dtype=torch.int64), ("one",), up="y")
    assert mirror.symmetric_cloud(clouds, "one", 8)[0].shape == (8, 3)


def test_the_cells_are_the_networks_of_the_command() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == cells()
    known = {f"--{name.replace('_', '-')}" for name in TrainConfig.__dataclass_fields__}
    for cell, name in zip(cells(), autoencoders.NETWORKS, strict=True):
        words = cell["arguments"]
        assert {word for word in words if word.startswith("--")} <= known
        given = autoencoders.settings_of(name, "shapenet", 16)
        assert ("--equivariant" in words) == given["equivariant"]
        assert int(words[words.index("--epochs") + 1]) == given["epochs"] == (5 if name == autoencoders.FLAT else 16)


def test_classes_of_shapenet_are_found_by_name() -> None:
    clouds = PointClouds(torch.zeros(2, 4, 3), torch.tensor([0, 1]), ("Airplane", "Chair"))
    assert shown_classes(clouds, ("chair", "sofa", "airplane")) == [1, 0]
    assert shown_classes(clouds, ("2", "4")) == [0, 1]
