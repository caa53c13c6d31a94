"""What a trained network reaches, as a result holds it."""

import json

import pytest
import torch
from torch import nn

from experiments.harness import accuracy
from reqnn.data.dataset import PointClouds
from reqnn.train import TrainConfig
from reqnn.train.run import Run
from written_shapes import CLASSES, shapes


class Extent(nn.Module):
    """Bars, discs and balls by their extents: along fixed axes, or along any."""

    def __init__(self, invariant):
        super().__init__()
        self.invariant, self.anything = invariant, nn.Linear(1, 1)

    def forward(self, points):
        along_any = torch.linalg.eigvalsh(points.mT @ points / points.shape[1]).flip(1)
        spread = along_any if self.invariant else points.square().mean(1)[:, [1, 0, 2]]
        thin = spread[:, 1] / spread[:, 0], spread[:, 2] / spread[:, 0]
        flat = (1 - thin[1]) * thin[0] if self.invariant else thin[0]
        return torch.stack([1 - thin[0], flat, thin[1]], dim=1)


@pytest.fixture
def clouds():
    points, labels = shapes(12, 0)
    return PointClouds(
        torch.from_numpy(points), torch.from_numpy(labels[:, 0]).long(), CLASSES, name="some", split="test", up="y"
    )


def run(invariant, **given):
    config = TrainConfig(equivariant=invariant, options={"k": 4}, points=48, root="here", out="there", **given)
    return Run(Extent(invariant), config, CLASSES, row={"epoch": 2, "validation_accuracy": 0.5})


def test_an_invariant_network_keeps_what_it_reaches_and_another_does_not(clouds):
    kept, lost = (accuracy.rotation_test(run(invariant), clouds, copies=4) for invariant in (True, False))
    assert kept["upright"] == kept["rotated"]
    assert kept["consistency"] == 1
    assert kept["changed"] == []
    assert kept["ambiguity"]["neighbourhoods"] == 12 * 48
    assert lost["consistency"] < 0.7
    assert lost["logit_change"] > 0.1 > 1e-4 > kept["logit_change"]
    assert "changed" not in lost
    json.dumps(kept)


def test_facts_name_no_folder_of_this_machine():
    facts = accuracy.run_facts(run(True, seed=3))
    assert (facts["seed"], facts["best_epoch"], facts["validation_accuracy"], facts["parameters"]) == (3, 2, 0.5, 2)
    assert not {"root", "out"} & facts["config"].keys()
    assert "here" not in json.dumps(facts)
    assert facts["tested_with"]["versions"].keys() >= {"reqnn", "torch"}


def test_a_part_of_the_test_set_is_always_the_same():
    config = TrainConfig(data="digits", points=24)
    some, again = (accuracy.load_test_set(config, 20) for _ in range(2))
    assert len(some) == 20
    assert some.points.equal(again.points)
    assert len(accuracy.load_test_set(config)) == len(accuracy.load_test_set(config, 10_000)) == 360
