"""Networks that give clouds back: training, testing upright and rotated, and the commands."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from reqnn.cli import main
from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.train import fit, load_run
from reqnn.train.checkpoint import STATE
from reqnn.train.distance import chamfer_distance
from reqnn.train.evaluation import evaluate_reconstruction
from reqnn.train.loop import Training
from reqnn.train.weights import load_tensors

SMALL = {"latent": 6, "width": 1 / 32, "encoder_options": {"k": 4, "extra_conv": False}}
AUTOENCODER = {"model": "autoencoder", "task": "reconstruction", "options": SMALL}
POINTNET = {"model": "pointnet_reconstruction", "task": "reconstruction", "options": {"width": 1 / 16}}


class Same(nn.Module):
    """Gives the cloud back, shifted by a fixed vector: not equivariant."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor([by, 0.0, 0.0]))

    def forward(self, points: Tensor) -> Tensor:
        return points + self.by


def test_figures_of_a_network_that_is_known(held_out: PointClouds) -> None:
    exact = evaluate_reconstruction(Same(0.0), held_out, "AR", copies=2, emd=3)
    assert (exact.chamfer, exact.emd, exact.emd_shapes, exact.shapes, exact.copies) == (0, 0, 3, 40, 2)
    assert exact.deviation < 1e-12
    moved = evaluate_reconstruction(Same(0.1), held_out, "AR", copies=2, emd=3)
    assert moved.emd == pytest.approx(0.1, rel=0.1)
    assert 0.1 < moved.mean_deviation < moved.deviation < 0.2001
    assert 0 < moved.chamfer_change < moved.chamfer < 0.0201
    assert moved.per_class.keys() == set("0123456789")
    upright = evaluate_reconstruction(Same(0.1), held_out, "NR")
    assert (upright.copies, upright.deviation, upright.emd) == (1, 0, None)


def test_a_network_that_classifies_is_refused(held_out: PointClouds) -> None:
    with pytest.raises(InputError, match="reconstruction needs clouds"):
        evaluate_reconstruction(nn.Sequential(nn.Flatten(), nn.Linear(72, 10)), held_out)
    with pytest.raises(InputError, match="no clouds"):
        evaluate_reconstruction(Same(0.0), held_out.subset([]))


@pytest.mark.parametrize(("given", "metric"), [(POINTNET, "distance"), (AUTOENCODER, "chamfer")])
def test_the_lowest_validation_figure_is_kept(
    given: dict, metric: str, clouds: PointClouds, held_out: PointClouds, settings: Callable
) -> None:
    run = fit(settings(**given, epochs=4), clouds, held_out, quiet=True)
    rows = (run.folder / "log.csv").read_text().splitlines()
    place = rows[0].split(",").index(f"validation_{metric}")
    values = [float(row.split(",")[place]) for row in rows[1:]]
    assert run.metrics[f"best_validation_{metric}"] == min(values)
    assert run.metrics["task"] == "reconstruction"
    assert float(rows[-1].split(",")[3]) < float(rows[1].split(",")[3])
    made = run.model(held_out.points).detach()
    assert made.shape == held_out.points.shape
    if metric == "chamfer":
        assert float(chamfer_distance(made, held_out.points).mean()) == pytest.approx(min(values), rel=1e-4)


def test_an_autoencoder_that_was_stopped_goes_on_to_the_same_weights(
    clouds: PointClouds, held_out: PointClouds, settings: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through, stopped = (settings(**AUTOENCODER, equivariant=True, clip=1.0, out=str(tmp_path / name)) for name in "ab")
    fit(through, clouds, held_out, quiet=True)
    step = Training.step

    def interrupted(training: Training, points: Tensor, labels: Tensor) -> None:
        if training.progress.step == 7:
            raise KeyboardInterrupt
        step(training, points, labels)
        training.save()

    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(stopped, clouds, held_out, quiet=True)
    fit(stopped, clouds, held_out, resume=True, quiet=True)
    expected, found = (load_tensors(tmp_path / name / STATE)[0] for name in "ab")
    assert all(found[name].equal(expected[name]) for name in expected)


def test_bfloat16_trains_the_frame_too(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    config = settings(**AUTOENCODER, equivariant=True, epochs=1, precision="bf16-mixed")
    assert fit(config, clouds, held_out, quiet=True).metrics["best_validation_chamfer"] < 10


def test_the_loss_can_be_chosen(clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    run = fit(settings(**POINTNET, loss="chamfer", epochs=1), clouds, held_out, quiet=True)
    assert "best_validation_chamfer" in run.metrics
    with pytest.raises(InputError, match="--task reconstruction"):
        fit(settings(**{**AUTOENCODER, "task": "classification"}, out=f"{run.folder}-wrong"), clouds, held_out, quiet=True)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory, clouds: PointClouds, held_out: PointClouds) -> list[Path]:
    """An ordinary autoencoder and its REQNN."""
    from reqnn.train import preset

    folders = []
    for equivariant in (False, True):
        folder = tmp_path_factory.mktemp("reconstruction") / "run"
        small = {"points": 24, "epochs": 1, "batch": 16, "options": SMALL, "threads": 1, "equivariant": equivariant}
        fit(preset("quick", "autoencoder", out=str(folder), **small), clouds, held_out, quiet=True)
        folders.append(folder)
    return folders


def test_eval_compares_upright_and_turned(two_runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ["eval", *map(str, two_runs), "--limit", "12", "--copies", "2", "--emd", "2", "--out", str(tmp_path)]
    assert main(words) == 0
    assert "REQNN of autoencoder" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evaluation.json", "reconstructions.png"]
    original, revised = json.loads((tmp_path / "evaluation.json").read_text())["runs"]
    assert revised["results"][1]["deviation"] < 1e-9
    assert revised["results"][1]["chamfer_change"] < 1e-9
    assert original["results"][1]["deviation"] > 1e-3
    assert original["results"][1]["emd_shapes"] == 2


def test_eval_does_not_mix_tasks(
    two_runs: list[Path], clouds: PointClouds, held_out: PointClouds, settings: Callable, capsys: pytest.CaptureFixture
) -> None:
    other = fit(settings(epochs=1), clouds, held_out, quiet=True)
    assert main(["eval", str(two_runs[0]), str(other.folder)]) == 2
    assert "was trained for classification" in capsys.readouterr().err


def test_reconstruct_turns_features_and_writes_ply(two_runs: list[Path], held_out: PointClouds, tmp_path: Path) -> None:
    import numpy as np
    import trimesh

    np.save(tmp_path / "digit.npy", held_out.points[0].numpy() * 5 + 3)
    out = tmp_path / "out"
    words = ["reconstruct", str(two_runs[1]), str(tmp_path / "digit.npy"), "--axis", "0.5", "1", "0", "--angle", "70"]
    assert main([*words, "--out", str(out)]) == 0
    record = json.loads((out / "rotated.json").read_text())
    assert record["difference"] < 1e-10
    assert record["layer"] == "latent"
    given, made, rotated = (trimesh.load(out / f"{name}.ply") for name in ("input", "reconstructed", "rotated"))
    assert len(made.vertices) == len(rotated.vertices) == 24
    assert np.abs(np.asarray(given.vertices).mean(0) - 3).max() < 2  # in the units of the file
    assert (out / "rotated.png").stat().st_size > 5000
    assert main([*words, "--at", "encoder", "--out", str(out)]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{original}", None), "is no REQNN"),
        ((None, "0 0 0"), "needs a direction"),
        (("{nowhere}", None), "give a run's folder"),
    ],
)
def test_reconstruct_explains_mistakes(
    change: tuple, message: str, two_runs: list[Path], held_out: PointClouds, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    import numpy as np

    np.save(tmp_path / "digit.npy", held_out.points[0].numpy())
    run = {"{original}": two_runs[0], "{nowhere}": tmp_path / "no"}.get(change[0], two_runs[1])
    words = ["reconstruct", str(run), str(tmp_path / "digit.npy"), "--axis", *(change[1] or "0 1 0").split()]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_a_run_reads_back_with_its_number_of_points(two_runs: list[Path]) -> None:
    run = load_run(two_runs[1])
    assert run.config.task == "reconstruction"
    assert run.model(torch.randn(2, 50, 3)).shape == (2, 24, 3)
