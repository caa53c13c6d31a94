"""Segment the parts of objects in any orientation: train a PointNet++ on upright "lollipops", test it rotated.

The objects are made here: a ball (part 1) on a stick (part 2) with a foot (part 3). For ShapeNet Part see docs/segmentation.md.

python examples/part_segmentation.py
"""

import tempfile

import torch

from reqnn.data.dataset import PointClouds
from reqnn.train import TrainConfig, evaluate_segmentation, fit

SETTINGS = {
    "model": "pointnet2_parts",
    "options": {"width": 0.125, "npoint": [32, 8], "radius": [0.4, 0.8], "nsample": [8, 8], "dropout": 0.0},
    "task": "segmentation",
    "points": 96,
    "batch": 16,
    "epochs": 6,
    "optimizer": "adamw",
    "lr": 0.01,
    "schedule": "onecycle",
    "accelerator": "cpu",
}
NAMES = ("Lollipop 1", "Lollipop 2", "Lollipop 3")


def lollipops(count, points=96, seed=0):
    """Objects of three parts, of different proportions, upright."""
    random = torch.Generator().manual_seed(seed)
    parts = torch.arange(points).expand(count, points) % 3
    directions = torch.nn.functional.normalize(torch.randn(count, points, 3, generator=random), dim=-1)
    size = 0.2 + 0.15 * torch.rand(count, 1, 1, generator=random)
    ball = size * directions + torch.tensor([0.0, 0.6, 0.0])
    stick = torch.tensor([0.04, 0.0, 0.04]) * directions
    stick[..., 1] = 1.2 * torch.rand(count, points, generator=random) - 0.7
    foot = 1.2 * size * directions * torch.tensor([1.0, 0.0, 1.0]) - torch.tensor([0.0, 0.75, 0.0])
    cloud = torch.stack([ball, stick, foot]).gather(0, parts[None, ..., None].expand(1, -1, -1, 3))[0]
    return PointClouds(cloud, torch.zeros(count, dtype=torch.int64), ("Lollipop",), up="y", parts=parts, part_names=NAMES)


train, validation, test = lollipops(128), lollipops(32, seed=1), lollipops(32, seed=2)
for rules in ("ordinary", "full"):
    with tempfile.TemporaryDirectory() as folder:
        revision = {} if rules == "ordinary" else {"equivariant": True, "rules": rules}
        config = TrainConfig(**SETTINGS, **revision, out=f"{folder}/run")
        net = fit(config, train, validation, quiet=True).model
    upright, rotated = (evaluate_segmentation(net, test, protocol, copies=4) for protocol in ("NR", "AR"))
    print(
        f"{rules}: mean IoU {upright.instance_miou:.0%} upright, {rotated.instance_miou:.0%} rotated; "
        f"{rotated.inconsistent:.1%} of the points change their part with the rotation"
    )
assert rotated.instance_miou > 0.8
assert rotated.inconsistent == 0
