import math

import pytest
import torch

from reqnn.errors import InputError
from reqnn.train import TrainConfig, preset
from reqnn.train.checkpoint import Progress
from reqnn.train.task import Classification, PointwiseReconstruction, Reconstruction, make_task

CLOUDS = torch.randn(4, 10, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 1])


def test_the_settings_decide() -> None:
    assert make_task(TrainConfig(smoothing=0.3)) == Classification(smoothing=0.3)
    assert make_task(TrainConfig(task="reconstruction", model="autoencoder")) == Reconstruction()
    assert make_task(TrainConfig(task="reconstruction", model="pointnet_reconstruction")) == PointwiseReconstruction()
    chosen = TrainConfig(task="reconstruction", model="pointnet_reconstruction", loss="chamfer")
    assert make_task(chosen) == Reconstruction()
    with pytest.raises(InputError, match=r"^loss is mse; it must be auto for classification"):
        TrainConfig(loss="mse")


@pytest.mark.parametrize("name", ["quick", "paper"])
def test_presets_know_what_a_network_is_for(name: str) -> None:
    assert preset(name).task == "classification"
    assert preset(name, task="reconstruction").model == "pointnet_reconstruction"
    assert preset(name, "pointnet_reconstruction").smoothing == 0


def test_losses_and_scores() -> None:
    moved = CLOUDS + torch.tensor([0.3, 0.0, 0.4])
    pointwise = PointwiseReconstruction()
    assert float(pointwise.loss(moved, CLOUDS, LABELS)) == pytest.approx(0.25)
    torch.testing.assert_close(pointwise.scores(moved, CLOUDS, LABELS), torch.full((4,), 0.5))
    sets = Reconstruction()
    assert float(sets.loss(CLOUDS.flip(1), CLOUDS, LABELS)) == 0
    assert float(sets.loss(moved, CLOUDS, LABELS)) == pytest.approx(float(sets.scores(moved, CLOUDS, LABELS).mean()))
    logits = torch.eye(3)[[0, 1, 2, 2]]
    assert Classification().scores(logits, CLOUDS, LABELS).tolist() == [True, True, True, False]


def test_outputs_of_another_kind_are_explained() -> None:
    with pytest.raises(InputError, match="--task reconstruction"):
        Classification().loss(CLOUDS, CLOUDS, LABELS)
    for task in (Reconstruction(), PointwiseReconstruction()):
        with pytest.raises(InputError, match="reconstruction needs clouds"):
            task.loss(torch.zeros(4, 40), CLOUDS, LABELS)
    with pytest.raises(InputError, match="--loss chamfer"):
        PointwiseReconstruction().loss(CLOUDS[:, :5], CLOUDS, LABELS)


def test_the_best_epoch_is_the_lowest_where_lower_is_better() -> None:
    progress, task = Progress(), Reconstruction()
    values = [math.nan, 0.5, 0.2, 0.3, math.nan]
    better = [progress.end_epoch({"epoch": i + 1, "validation_chamfer": v}, task) for i, v in enumerate(values)]
    assert better == [True, True, True, False, False]
    assert (progress.best, progress.best_epoch) == (0.2, 3)
