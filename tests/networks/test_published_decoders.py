"""Decoders that end in tanh, and sums of which one summand became real: found by trying published networks."""

import pytest
import torch
from torch import nn

import reqnn


class Decoder(nn.Module):
    """Points from a code and a random grid, bounded by tanh (AtlasNet); `transposed`: (B, 3, N) → (B, M, 3)."""

    def __init__(self, transposed=False):
        super().__init__()
        self.transposed = transposed
        self.encoder, self.decoder = nn.Conv1d(3, 16, 1), nn.ModuleList([nn.Conv1d(18, 3, 1) for _ in range(2)])

    def forward(self, x):
        code = torch.relu(self.encoder(x if self.transposed else x.mT)).amax(2, keepdim=True)
        grid = torch.empty(len(x), 2, 10, dtype=code.dtype).uniform_(0, 1)
        y = torch.cat([grid, code.expand(-1, -1, 10)], 1)
        return torch.cat([torch.tanh(layer(y)) for layer in self.decoder], 2).mT


class Scores(nn.Module):
    """A softmax of the sum of two layers (GAPNet)."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.value, self.head = nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1), nn.Linear(8, 4)

    def forward(self, x):
        weight = torch.softmax(self.a(x) + self.b(x * x.norm(dim=1, keepdim=True)), -1)
        return self.head((weight * self.value(x)).sum(-1))


def test_coordinates_behind_tanh_rotate():
    points, rotation = torch.randn(2, 40, 3).double(), reqnn.quaternion.random_matrix(dtype=torch.float64)
    net = reqnn.revise(Decoder(), points.float(), rules="full").double().eval()
    clouds = []
    for x in (points, points @ rotation.T):
        torch.manual_seed(0)
        clouds.append(net(x))
    torch.testing.assert_close(clouds[1], clouds[0] @ rotation.T, atol=1e-9, rtol=0)
    assert (clouds[1] - clouds[0]).abs().max() > 1e-3


@pytest.mark.parametrize("rules", ["full", "frames"])
def test_three_on_the_other_axis_is_asked_for(rules):
    with pytest.raises(reqnn.InputError, match="three classes"):
        reqnn.revise(Decoder(transposed=True), torch.randn(2, 3, 40), rules=rules)
    reqnn.revise(Decoder(transposed=True), torch.randn(2, 3, 40), rules=rules, outputs=("vectors",))


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_both_summands_become_real(rules):
    points = torch.randn(4, 3, 40)
    net = reqnn.revise(Scores(), points, rules=rules)
    assert reqnn.audit(net, points, rotations=4, permutations=2, modes=("eval",)).ok
