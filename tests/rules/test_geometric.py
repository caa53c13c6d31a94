"""Networks of PyTorch Geometric, called with points (N, 3) and a batch vector: invariant, cloud by cloud."""

import pytest
import torch

import reqnn
from networks.checks import ROTATIONS, calibrate, error, spread

pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed: pip install 'reqnn[dev]'")
from networks import geometric  # after the skip

NETWORKS = ("DynamicEdges", "StaticEdges", "Hierarchy", "Interpolation", "VectorAttention", "Own")
SIZES = (14, 17, 20, 15)  # of the clouds
BATCH = torch.arange(4).repeat_interleave(torch.tensor(SIZES))


def clouds():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(len(BATCH), 3, generator=generator, dtype=torch.float64)
    return points * (0.4 + torch.rand(4, 3, generator=generator, dtype=torch.float64))[BATCH]


def build(name):
    torch.manual_seed(0)
    return getattr(geometric, name)()


@torch.no_grad()
@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("name", NETWORKS)
def test_each_cloud_rotated_and_reordered(name, rules):
    points = clouds()
    options = {"products": 4} if rules == "full" else {"frame_width": 8} if rules == "vector-neurons" else {}
    chosen = reqnn.get_rules(rules).with_options(**options)
    net = reqnn.revise(build(name), (points.float(), BATCH), rules=chosen).double()
    calibrate(net, (points, BATCH))
    usual = net(points, BATCH)
    order = torch.cat([torch.randperm(size) for size in SIZES]) + torch.tensor([0, *SIZES[:-1]]).cumsum(0)[BATCH]
    moved = torch.cat([cloud @ ROTATIONS[i % 3].T for i, cloud in enumerate(points.split(SIZES))])[order]
    expected = usual[order] if name == "Interpolation" else usual
    assert error(expected, net(moved, BATCH)) < 1e-9
    assert spread(usual) > 1e-6


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
def test_the_original_is_not_invariant(name):
    points = clouds()
    model = calibrate(build(name).double(), (points, BATCH))
    assert error(model(points, BATCH), model(points @ ROTATIONS[0].T, BATCH)) > 1e-3


def test_the_report_names_the_rows_of_table_1():
    net = reqnn.revise(build("Hierarchy"), (clouds().float(), BATCH))
    rows = {row.row for row in net.report.rows}
    assert {"Farthest point sampling", "Grouping (ball query)", "Max-pooling", "Convolution"} <= rows


def test_training():
    points = clouds().float()
    net = reqnn.revise(build("DynamicEdges"), (points, BATCH), rules="full").train()
    net(points, BATCH).square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
