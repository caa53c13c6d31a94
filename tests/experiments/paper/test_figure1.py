"""Figure 1 with a small network: an inner feature of a cloud, and of the rotated cloud."""

import json
from pathlib import Path

import pytest
import torch

from experiments.__main__ import main
from experiments.paper.contents import Figure, figure1
from experiments.paper.figure1 import clearest_channel, rotation

SMALL = {
    "data": "digits",
    "points": 64,
    "limit": 64,
    "epochs": 1,
    "batch": 16,
    "options": {"width": 0.125, "k": 8},
    "threads": 1,
}


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Figure:
    return figure1(tmp_path_factory.mktemp("figure1"), quiet=True, **SMALL)


def test_the_feature_turns_with_the_cloud_in_the_reqnn_only(figure: Figure) -> None:
    errors = {record["network"]: record["relative_error"] for record in figure.records}
    assert errors["reqnn"] < 1e-10
    assert errors["original"] > 0.1


def test_the_files(figure: Figure, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    figure.print()
    assert "Figure 1" in capsys.readouterr().out
    picture, text = figure.write(tmp_path)
    assert picture.stat().st_size > 30_000
    assert json.loads(text.read_text())["settings"]["angle"] == 60


def test_the_rotation_is_one_of_sixty_degrees() -> None:
    assert float((rotation().trace() - 1) / 2) == pytest.approx(0.5)


def test_the_channel_that_is_drawn_is_neither_constant_nor_radial() -> None:
    generator = torch.Generator().manual_seed(0)
    xyz = torch.randn(80, 3, generator=generator, dtype=torch.float64)
    swirl = torch.linalg.cross(torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64).expand(80, 3), xyz)
    features = torch.stack([xyz, torch.ones(80, 3).double(), torch.randn(80, 3, generator=generator).double(), swirl])
    assert clearest_channel(features, xyz) == 3


def test_the_command_draws(
    figure: Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("experiments.paper.contents.figure1", lambda runs: figure)
    assert main(["paper", "figure1", "--out", str(tmp_path)]) == 0
    assert "figure1.png" in capsys.readouterr().out
    assert (tmp_path / "figure1.json").exists()
