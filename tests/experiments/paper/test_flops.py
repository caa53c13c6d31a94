"""The counter against torch's own and against arithmetic by hand."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from experiments.paper.flops import count_operations
from reqnn.revision.report import count_parameters
from reqnn.zoo import create_model


class Twice(nn.Module):
    """One batch-norm with two names, a layer that is called twice, and one that is never called."""

    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(4)
        self.block = nn.Sequential(nn.Conv1d(4, 4, 1), self.bn, nn.LeakyReLU())
        self.unused = nn.Linear(100, 100)

    def forward(self, x):
        return self.block(self.block(x))


def test_by_hand():
    counted = count_operations(Twice(), torch.ones(2, 4, 5))
    elements = 2 * 4 * 5
    assert counted.multiply_adds == 2 * elements * 4
    assert counted.paper_flops == 2 * (elements * 4 + elements + 2 * 2 * elements + elements)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(6, 8, 3, groups=2, bias=False), (2, 6, 7, 7)),
        (nn.ConvTranspose1d(6, 4, 3, stride=2, bias=False), (2, 6, 5)),
        (nn.Conv3d(2, 4, (1, 2, 3), bias=False), (1, 2, 4, 4, 4)),
        (nn.Linear(5, 7, bias=False), (3, 2, 5)),
    ],
)
def test_multiply_adds_are_half_of_what_torch_counts(layer, shape):
    x = torch.randn(shape)
    with FlopCounterMode(display=False) as counter:
        layer(x)
    assert 2 * count_operations(layer, x).multiply_adds == counter.get_total_flops()


@pytest.mark.parametrize("equivariant", [False, True])
def test_a_network_without_neighbours_has_nothing_but_layers(equivariant):
    net = create_model("pointnet_reconstruction", equivariant=equivariant, width=0.25).eval()
    x = torch.randn(1, 64, 3)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        net(x)
    assert 2 * count_operations(net, x).multiply_adds == counter.get_total_flops()


def test_quaternion_layers_count_three_times():
    options = {"width": 0.25, "num_classes": 5}
    x = torch.randn(1, 64, 3)
    real, revised = (count_operations(create_model("pointnet", e, **options), x) for e in (False, True))
    head = 256 * 128 + 128 * 64 + 64 * 5
    first = 64 * 3 * 16  # three real inputs against one quaternion: the same work
    assert revised.multiply_adds - head - first == 3 * (real.multiply_adds - head - first)


def test_modes_and_hooks_are_left_as_they_were():
    net = Twice()
    net.bn.eval()
    count_operations(net, torch.ones(2, 4, 5))
    assert net.training
    assert not net.bn.training
    assert not any(module._forward_hooks for module in net.modules())


def test_shared_parameters_count_once():
    net = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    net[1].weight = net[0].weight
    assert count_parameters(net) == 9 + 3 + 3
