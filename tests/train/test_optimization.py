import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from reqnn.train.config import TrainConfig
from reqnn.train.optimization import learning_rate, make_optimizer, moving_average_
from reqnn.train.task import Classification


@pytest.mark.parametrize("smoothing", [0.0, 0.2, 0.5])
def test_smoothing_is_the_papers(smoothing: float) -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 0])
    target = torch.full((6, 5), smoothing / 4, dtype=torch.float64)
    target[torch.arange(6), labels] = 1 - smoothing
    expected = -(target * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(Classification(smoothing=smoothing).loss(logits, logits, labels), expected)


def rates(**settings: object) -> list[float]:
    config = TrainConfig(epochs=10, lr=1.0, min_lr=0.01, **settings)  # type: ignore[arg-type]
    return [learning_rate(config, step, 10) for step in range(100)]


def test_cosine_falls_from_the_first_to_the_last_step() -> None:
    values = rates(schedule="cosine")
    assert values[0] == 1.0
    assert values == sorted(values, reverse=True)
    assert 0.01 < values[-1] < 0.012
    assert values[50] == pytest.approx(0.505)


def test_warmup_rises_first() -> None:
    values = rates(schedule="constant", warmup=2)
    assert values[0] == pytest.approx(0.05)
    assert values[19:] == [1.0] * 81
    assert values[:20] == sorted(values[:20])


def test_step_decays_by_its_rate() -> None:
    values = rates(schedule="step", decay_epochs=3, decay_rate=0.5)
    assert [values[i] for i in (0, 29, 30, 60, 99)] == [1.0, 1.0, 0.5, 0.25, 0.125]


def test_onecycle_rises_and_falls() -> None:
    values = rates(schedule="onecycle")
    assert values[0] == pytest.approx(0.04)
    assert values[30] == max(values) == 1.0
    assert values[-1] < 0.012


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_optimizers_have_the_settings(optimizer: str, settings: Callable) -> None:
    made = make_optimizer(nn.Linear(2, 2), settings(optimizer=optimizer, lr=0.3, momentum=0.8, weight_decay=0.02))
    group = made.param_groups[0]
    assert type(made).__name__.lower() == optimizer
    assert (group["lr"], group["weight_decay"]) == (0.3, 0.02)
    assert group.get("momentum", group.get("betas", [None])[0]) == 0.8


def test_the_average_follows_the_weights_and_counts_shared_ones_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model.again = model[0]  # type: ignore[assignment] - two names for one layer
    average = copy.deepcopy(model)
    before = average[0].weight.clone()
    with torch.no_grad():
        model[0].weight.add_(1)
        model[1].num_batches_tracked.fill_(5)
    moving_average_(average, model, decay=0.9, step=1000)
    torch.testing.assert_close(average[0].weight, before + 0.1)
    assert average[1].num_batches_tracked == 5
    moving_average_(average, model, decay=0.9, step=0)  # early, a tenth of the past counts
    torch.testing.assert_close(average[0].weight, before + 1 - 0.09)
