from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.train.evaluation import accuracy_by_angle, evaluate, measure
from reqnn.train.prediction import predict
from reqnn.train.run import build_network


class Highest(nn.Module):
    """Answers by the direction of the point furthest from the middle: upright it is right by design, rotated it is not."""

    def __init__(self) -> None:
        super().__init__()
        self.anything = nn.Linear(1, 1)

    def forward(self, points: Tensor) -> Tensor:
        tip = points.gather(1, points.norm(dim=-1).argmax(1)[:, None, None].expand(-1, 1, 3))[:, 0]
        return torch.cat([tip, -tip], dim=1)[:, :4]  # towards x, y, z or −x


@pytest.fixture(scope="module")
def arrows() -> PointClouds:
    """Forty clouds with one point far out along x, y, z or −x; the fifth class has none."""
    labels = torch.arange(40) % 4
    points = 0.05 * torch.randn(40, 6, 3, generator=torch.Generator().manual_seed(0))
    points[:, 0] = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]])[labels]
    return PointClouds(points, labels, ("x", "y", "z", "-x"), name="arrows", split="test", up="z")


def test_upright_is_right_and_turned_is_not(arrows: PointClouds) -> None:
    upright, rotated = (evaluate(Highest(), arrows, protocol) for protocol in ("NR", "AR"))
    assert (upright.accuracy, upright.class_accuracy, upright.copies, upright.inconsistent) == (1.0, 1.0, 1, 0.0)
    assert upright.confusion == [[10 if i == j else 0 for j in range(4)] for i in range(4)]
    assert rotated.copies == 10
    assert rotated.accuracy < 0.5
    assert rotated.inconsistent > 0.9
    assert rotated.logit_change > 1
    assert sum(map(sum, rotated.confusion)) == 400


def test_vertical_is_about_the_axis_of_the_data(arrows: PointClouds) -> None:
    result = evaluate(Highest(), arrows, "vertical")
    assert result.per_class["z"] == 1.0
    assert result.per_class["x"] < 0.6
    assert result.confusion == evaluate(Highest(), arrows, "z").confusion


def test_the_same_seed_gives_the_same_test(arrows: PointClouds) -> None:
    assert evaluate(Highest(), arrows, batch=7) == evaluate(Highest(), arrows, batch=32)
    assert evaluate(Highest(), arrows, seed=1).confusion != evaluate(Highest(), arrows, seed=0).confusion


def test_consistency_counts_shapes_not_rotations() -> None:
    labels = torch.tensor([0, 0, 1])
    clouds = PointClouds(torch.zeros(3, 1, 3), labels, ("a", "b", "c"))
    logits = torch.tensor([[[2.0, 1, 0]] * 3, [[2.0, 1, 0], [1, 2, 0], [2.0, 1, 0]], [[0, 1.0, 0], [0, 1.5, 0], [0, 1, 0]]])
    result = measure(logits, clouds, "AR")
    assert result.inconsistent == pytest.approx(1 / 3)
    assert result.changed == [1]
    assert result.logit_change == 1.0
    assert result.accuracy == pytest.approx(8 / 9)
    assert result.per_class == {"a": pytest.approx(5 / 6), "b": 1.0, "c": None}
    assert result.class_accuracy == pytest.approx(11 / 12)
    assert result.confusion == [[5, 1, 0], [0, 3, 0], [0, 0, 0]]


def test_a_reqnn_keeps_its_answers_and_the_original_does_not(held_out: PointClouds, settings: Callable) -> None:
    small = {"model": "dgcnn", "options": {"width": 0.125, "k": 6}}
    revised, original = (build_network(settings(**small, equivariant=e), 10).eval() for e in (True, False))
    kept, lost = (evaluate(net.double(), held_out, "AR", copies=3) for net in (revised, original))
    assert kept.inconsistent == 0
    assert kept.logit_change < 1e-4 * kept.logit_spread
    assert lost.logit_change > 1e-2 * lost.logit_spread


def test_accuracy_falls_with_the_angle(arrows: PointClouds) -> None:
    upright, little, far = accuracy_by_angle(Highest(), arrows, [0, 20, 150])
    assert upright == little == 1.0
    assert far < 0.4


def test_other_classes_and_empty_sets_are_refused(arrows: PointClouds) -> None:
    with pytest.raises(InputError, match="has 4 classes; arrows has 5"):
        evaluate(Highest(), replace(arrows, classes=(*arrows.classes, "w")))
    with pytest.raises(InputError, match="no clouds to test on"):
        evaluate(Highest(), arrows.subset([]))


def test_prediction_restores_the_mode(held_out: PointClouds) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(72, 3)).train()
    logits = predict(net, held_out.points, batch=7)
    assert logits.equal(predict(net, held_out.points, batch=7))
    assert net.training
    assert not logits.requires_grad
