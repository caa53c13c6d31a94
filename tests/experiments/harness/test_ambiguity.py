"""Ties are counted where they are, and changed answers are told apart by their cause."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from experiments.harness.accuracy import rotated_logits
from experiments.harness.ambiguity import count_ambiguity, explain_changes, neighbourhood_ties, neighbours, searched_points
from reqnn.data import rotated_test_set
from reqnn.data.dataset import PointClouds
from reqnn.train import TrainConfig

DGCNN = TrainConfig(model="dgcnn", equivariant=True, options={"k": 3}, points=27)


def grid():
    line = torch.linspace(-1, 1, 3)
    return torch.cartesian_prod(line, line, line)


def test_a_random_cloud_has_no_ties():
    points = torch.randn(4, 40, 3, generator=torch.Generator().manual_seed(0))
    tied, ambiguous = neighbourhood_ties(points, 5)
    assert tied.tolist() == ambiguous.tolist() == [0] * 4


def test_a_grid_is_full_of_them():
    tied, ambiguous = neighbourhood_ties(grid()[None], 3)
    assert tied.tolist() == [27]  # a corner has itself and three neighbours, all at one distance
    assert int(ambiguous) == 0  # a tie is taken whole or left out: no neighbourhood depends on the order of the points


def test_a_grid_with_invariants_to_tell_its_points_apart_is_tied_but_not_ambiguous():
    """Points far out make every distance to the centroid different, and leave the grid's own distances as they are."""
    far = torch.tensor([[3.0, 1.1, 0.3], [-2.9, 2.3, 1.7], [0.5, -3.1, 2.9]])
    tied, ambiguous = neighbourhood_ties(torch.cat([grid(), far])[None], 3)
    assert int(tied) >= 20
    assert int(ambiguous) == 0


def test_no_choice_no_tie():
    assert neighbourhood_ties(grid()[None], 27)[0].tolist() == [0]


def test_counts_for_a_result():
    points = torch.stack([grid(), torch.randn(27, 3, generator=torch.Generator().manual_seed(0))])
    found = count_ambiguity(points, DGCNN)
    assert (found["neighbours"], found["shapes"], found["neighbourhoods"], found["tied"]) == (3, 2, 54, 27)
    assert found["shapes_with_ambiguous"] == 0
    assert "ambiguous_frames" not in found
    frames = count_ambiguity(points, TrainConfig(model="pointconv", options={"nsample": [4, 4]}))
    assert (frames["neighbours"], frames["ambiguous_frames"]) == (4, 1)


def test_counts_are_of_the_samples_that_the_network_takes():
    """The grid beside points far out: the farthest points are few of the grid's, and each vote has others."""
    points = torch.cat([grid(), 9 * torch.randn(9, 3, generator=torch.Generator().manual_seed(0))])[None]
    one, votes = ({**DGCNN.options, "sample": 18, "votes": votes} for votes in (1, 2))
    (single,), several = (searched_points(points, replace(DGCNN, options=options)) for options in (one, votes))
    assert single.shape == (1, 18, 3)
    assert [sample.shape for sample in several] == [(1, 18, 3)] * 2
    first, second = (set(map(tuple, sample[0].tolist())) for sample in several)
    assert first == set(map(tuple, single[0].tolist()))
    assert first != second
    found = count_ambiguity(points, replace(DGCNN, options=votes))
    assert (found["shapes"], found["neighbourhoods"]) == (1, 36)
    assert found["tied"] == sum(int(neighbourhood_ties(sample, 3)[0]) for sample in several) > 0


def test_networks_whose_neighbourhoods_we_do_not_know():
    assert count_ambiguity(grid()[None], TrainConfig(model="pointnet", equivariant=True)) is None


@pytest.mark.parametrize(
    ("model", "options", "k"), [("dgcnn", {}, 20), ("pointnet2", {"nsample": [8, 4]}, 8), ("pointconv", {}, 32)]
)
def test_neighbours_of_the_first_layer(model, options, k):
    assert neighbours(TrainConfig(model=model, options=options)) == k


class Size(nn.Module):
    """Two classes by an invariant, with a margin far below the rounding of float32; or, broken, by a coordinate."""

    def __init__(self, broken=False):
        super().__init__()
        self.broken, self.anything = broken, nn.Linear(1, 1)

    def forward(self, points):
        size = points[:, 0, 0] if self.broken else 1e3 * (points.square().sum((1, 2)) - self.level)
        return torch.stack([size, -size], dim=1)


@pytest.fixture
def rotated():
    points = torch.randn(3, 27, 3, generator=torch.Generator().manual_seed(1))
    clouds = PointClouds(points, torch.tensor([0, 1, 0]), ("small", "large"), name="some", split="test")
    return rotated_test_set(clouds, "AR", 10)


def test_float64_identifies_rounding(rotated):
    net = Size()
    net.level = rotated.clouds.points[1].double().square().sum().item() + 1e-9
    logits = rotated_logits(net, rotated)
    changed = (logits.argmax(-1) != logits.argmax(-1)[:, :1]).any(1).nonzero()[:, 0].tolist()
    assert changed == [1]
    (found,) = explain_changes(net, DGCNN, rotated, logits, changed)
    assert found["cause"] == "rounding"
    assert (found["shape"], found["class"], sum(found["answers"].values())) == (1, "large", 10)
    assert len(found["answers_float64"]) == 1
    assert found["margin"] <= found["logit_change"] < 0.1
    assert found["logit_change_float64"] < 1e-9
    assert (found["tied"], found["ambiguous"]) == (0, 0)


def test_a_network_that_is_not_invariant_is_not_explained_away(rotated):
    net = Size(broken=True)
    before = copy.deepcopy(net)
    logits = rotated_logits(net, rotated)
    found = explain_changes(net, DGCNN, rotated, logits, [0, 1, 2])
    assert [record["cause"] for record in found] == ["unexplained"] * 3
    assert all(p.dtype == q.dtype for p, q in zip(net.parameters(), before.parameters(), strict=True))


def test_nothing_changed_nothing_explained(rotated):
    assert explain_changes(Size(), DGCNN, rotated, torch.zeros(3, 10, 2), []) == []
