"""Parameters and operations of the ordinary networks against those of the paper (40 classes, 1024 points)."""

import pytest
import torch
import torch.nn as nn

from reqnn.zoo import create_model

PARAMETERS = [
    ("pointnet2", {}, 1_476_264),
    ("pointnet2_msg", {}, 1_747_368),
    ("dgcnn", {}, 2_860_200),
    ("dgcnn", {"extra_conv": False}, 1_809_576),
    ("dgcnn", {"sample": 128, "stem": 32}, 2_860_200),
    ("pointconv", {}, 19_569_177),
    ("pointconv", {"dead_parameters": True}, 19_569_177 + 1_053_440),
    # + 3·64 inputs of SA1, − the biases of three DensityNets (8+8+1) and WeightNets (8+8+16)
    ("pointconv", {"absolute_xyz": True, "weight_bias": False}, 19_569_177 + 3 * 64 - 3 * (17 + 32)),
    ("pointnet", {}, 819_624),
    ("pointnet_stn", {}, 3_480_049),
    ("pointnet_reconstruction", {}, 291_715),
    ("rscnn", {}, 1_289_473),
    ("rscnn", {"dead_parameters": True}, 1_289_505),
    ("point2sequence", {}, 1_845_416),
    ("point2sequence", {"attention": "published"}, 1_845_416),
    ("kd_network", {}, 1_981_064),
    ("prin", {}, 577_130),
    ("prin", {"radial": False}, 375_530),
    ("qe_capsule", {}, 444_460),
    ("qe_capsule", {"capsules": 128}, 921_644),
]

# name: multiply-adds to three decimals, and the paper's own counting as it prints it (G)
OPERATIONS = {
    "pointnet2": (0.844, 0.87),
    "dgcnn": (3.465, 3.53),
    "pointconv": (1.128, 1.44),
    "pointnet_reconstruction": (0.294, 0.30),
}


def count_operations(net, points):
    """Return multiply-adds and the paper's count: conv + bias, BN 2, LeakyReLU module 1, Linear 2·in·out."""
    macs, flops = {}, {}

    def count(module, inputs, output):
        if isinstance(module, nn.Conv1d | nn.Conv2d):
            macs[module] = output.numel() * module.in_channels
            flops[module] = macs[module] + (output.numel() if module.bias is not None else 0)
        elif isinstance(module, nn.Linear):
            macs[module] = output.numel() * module.in_features
            flops[module] = 2 * macs[module]
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            flops[module] = 2 * output.numel()
        elif isinstance(module, nn.LeakyReLU):
            flops[module] = output.numel()

    for module in net.modules():
        module.register_forward_hook(count)
    with torch.no_grad():
        net(points)
    # A module registered under two names counts twice, as in the paper.
    return sum(macs.values()), sum(flops.get(module, 0) for _, module in net.named_modules(remove_duplicate=False))


@pytest.mark.parametrize(("name", "options", "expected"), PARAMETERS)
def test_parameters_to_the_last_digit(name, options, expected):
    with torch.device("meta"):
        net = create_model(name, **options)
    assert sum(p.numel() for p in net.parameters()) == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_as_the_paper_prints_them(name):
    points = torch.rand(1, 1024, 3, generator=torch.Generator().manual_seed(0)) - 0.5
    macs, flops = count_operations(create_model(name).eval(), points)
    assert (round(macs / 1e9, 3), round(flops / 1e9, 2)) == OPERATIONS[name]
