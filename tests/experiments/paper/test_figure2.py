"""Figure 2 with small networks: features rotated inside a trained REQNN, and inside the network it comes from."""

import json
from pathlib import Path

import pytest
import torch

from experiments.paper import shapes
from experiments.paper.contents import Figure, figure2
from experiments.paper.figure2 import LAYER, TOLERANCE, deviation, synthesise
from experiments.paper.shapes import ANGLES, choose_data, choose_objects, paper_rotations
from reqnn.errors import InputError
from reqnn.train.evaluation import in_double
from reqnn.train.run import load_run

SMALL = {"data": "digits", "points": 64, "limit": 80, "options": {"width": 1 / 16}, "threads": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figure2")


@pytest.fixture(scope="module")
def figure(runs: Path) -> Figure:
    return figure2(runs, quiet=True, **SMALL)


def test_the_four_rotations_are_the_papers() -> None:
    rotations = paper_rotations()
    assert rotations.shape == (5, 3, 3)
    torch.testing.assert_close(rotations @ rotations.mT, torch.eye(3).double().expand(5, 3, 3))
    angles = torch.rad2deg(torch.arccos((rotations.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2)[1:])
    torch.testing.assert_close(angles, torch.tensor(ANGLES).double())


def test_turned_features_decode_to_the_turned_cloud_and_only_revised(figure: Figure) -> None:
    records = {(record["network"], record["object"]): record for record in figure.records}
    assert len(records) == 8
    for (network, _), record in records.items():
        assert list(record["difference"]) == list("abcde")
        worst = max(value for letter, value in record["difference"].items() if letter != "a")
        assert (worst <= TOLERANCE) if network == "reqnn" else (worst > 0.01)
        assert record["difference"]["a"] <= TOLERANCE


def test_the_networks_are_trained(figure: Figure, runs: Path) -> None:
    for kind in ("reqnn", "original"):
        metrics = load_run(runs / f"figure2-digits-{kind}").metrics
        assert metrics["finished"]
        assert metrics["task"] == "reconstruction"


def test_a_trained_run_is_taken_up(runs: Path, figure: Figure) -> None:
    again = figure2(runs, quiet=True, **SMALL)
    assert again.records == figure.records


def test_the_files(figure: Figure, tmp_path: Path) -> None:
    picture, text = figure.write(tmp_path)
    assert picture.stat().st_size > 50_000
    written = json.loads(text.read_text())
    assert written["settings"]["layer"] == LAYER
    assert "versions" in written


def test_a_radial_network_moves_points_along_their_radius(runs: Path, figure: Figure) -> None:
    net = in_double(load_run(runs / "figure2-digits-reqnn").model)
    points = choose_objects("digits", 64).points
    made, expected = synthesise(net, points)
    across = torch.linalg.cross(made[0], points).norm(dim=-1)
    assert across.max() < 1e-12
    assert deviation(made, expected).shape == (5, 4)


def test_without_real_data_the_digits_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQNN_DATA", str(tmp_path))
    assert choose_data() == "digits"


def test_shapenet_is_preferred_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, split: str, points: int) -> None:
        asked.append(name)
        if name == "shapenet":
            raise InputError("not here")

    monkeypatch.setattr(shapes.data, "load", load)
    assert choose_data("shapenet", "modelnet40") == "modelnet40"
    assert asked == ["shapenet", "modelnet40"]
