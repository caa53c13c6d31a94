"""Ordinary point-cloud networks in other people's styles, with the arguments of `reqnn.revise` for each.

The networks import torch only. They are written as public code writes them: channels first or last, neighbours by
advanced indexing or by `torch.gather`, layers in Sequentials or ModuleLists.

    style = STYLES["dgcnn"]
    points = style.points(batch=4, n=1024)
    net = reqnn.revise(style.build(), points, rules="paper", **style.revise["paper"])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from experiments.styles.clouds import surfaces
from experiments.styles.dgcnn import DGCNN, GatherDGCNN
from experiments.styles.pct import Pct
from experiments.styles.pointconv import PointConv
from experiments.styles.pointnet2 import PointNet2Msg, PointNet2Ssg
from experiments.styles.residual_mlp import ResidualMLP
from experiments.styles.two_branch import TwoBranchNet

RULES = ("paper", "full", "vector-neurons")
SMALL_POINTS = 64


@dataclass(frozen=True)
class Style:
    """A network in somebody's style.

    Attributes:
        name: what the benchmark calls it.
        network: its class; without arguments it has the published width, for 40 classes and 1024 points.
        small: arguments of a narrow variant for clouds of `SMALL_POINTS` points.
        channels_first: whether it takes (B, 3, N) rather than (B, N, 3).
        revise: rule set → keyword arguments of `reqnn.revise`.
    """

    name: str
    network: Callable[..., nn.Module]
    small: dict[str, Any]
    channels_first: bool = True
    revise: dict[str, dict[str, Any]] = field(default_factory=lambda: {rules: {} for rules in RULES})

    def build(self, small: bool = False) -> nn.Module:
        """Return the network, at its published width or narrow."""
        return self.network(**self.small) if small else self.network()

    def points(self, batch: int, n: int = 1024, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return an example input."""
        clouds = surfaces(batch, n, seed=seed, dtype=dtype)
        return clouds.transpose(1, 2).contiguous() if self.channels_first else clouds


def logits(output: Any) -> Tensor:
    """Return the scores of the classes, also if the network returns more than those."""
    return output[0] if isinstance(output, tuple) else output


@torch.no_grad()
def calibrate(network: nn.Module, points: Tensor) -> None:
    """Set the running statistics to those of one batch: with untrained ones features fade from layer to layer."""
    norms = [module for module in network.modules() if hasattr(module, "momentum")]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # type: ignore[assignment]  # the batch replaces what was there
    network.train()
    network(points)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


_NARROW_DGCNN = {"classes": 5, "k": 6, "widths": (8, 8, 12, 16), "emb_dims": 24, "hidden": (16, 12)}
_NARROW_LEVELS = {"classes": 5, "npoints": (32, 12), "nsamples": (6, 8), "hidden": (16, 12)}
_NARROW_MLPS = ([8, 8, 12], [12, 12, 16], [16, 20, 24])
_WEIGHT_NETS = tuple(f"sa{level}.weightnet" for level in (1, 2, 3))

STYLES = {
    style.name: style
    for style in (
        Style("dgcnn", DGCNN, _NARROW_DGCNN),
        Style("dgcnn_gather", GatherDGCNN, _NARROW_DGCNN, channels_first=False),
        Style("pointnet2_ssg", PointNet2Ssg, {**_NARROW_LEVELS, "radii": (0.4, 0.8), "mlps": _NARROW_MLPS}),
        Style(
            "pointnet2_msg",
            PointNet2Msg,
            {
                **_NARROW_LEVELS,
                "radii": ((0.3, 0.6), (0.5, 0.9)),
                "nsamples": ((4, 8), (6, 10)),
                "mlps": ([[6, 8], [8, 8, 12]], [[12, 12], [12, 12, 16]], [16, 20, 24]),
            },
        ),
        Style(
            "pointconv",
            PointConv,
            {**_NARROW_LEVELS, "mlps": _NARROW_MLPS, "weights": 4},
            revise={rules: {"coordinates": _WEIGHT_NETS} for rules in RULES},
        ),
        Style("pct", Pct, {"classes": 5, "width": 8, "npoints": (32, 16), "nsample": 6, "emb_dims": 24, "hidden": (16, 12)}),
        Style(
            "residual_mlp",
            ResidualMLP,
            {
                "classes": 5,
                "points": SMALL_POINTS,
                "embed_dim": 8,
                "dim_expansion": (2, 1),
                "pre_blocks": (2, 1),
                "pos_blocks": (1, 2),
                "k_neighbors": (6, 8),
                "reducers": (2, 2),
                "hidden": (16, 12),
            },
        ),
        Style("two_branch", TwoBranchNet, {"classes": 5, "width": 8, "k": 6, "k_filter": 10, "M": 16, "hidden": (16, 12)}),
    )
}
