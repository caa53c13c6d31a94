"""Kinds of point-cloud network, in small and in words of our own, with the arguments of `reqnn.revise` for each.

The networks import torch only; those in other people's styles are in `experiments.styles`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from experiments.networks.folding import CompletionNet, FoldingNet
from experiments.networks.kernels import DirectionNet, KernelPointNet, SpiderNet
from experiments.networks.pointnet import PointNet, Propagation, TransformedPointNet
from experiments.networks.weights import CurveGate, LocalSpatialEncoding, PointTransformer, RelationShape
from experiments.styles import SMALL_POINTS, STYLES, Style
from experiments.styles.clouds import surfaces


@dataclass(frozen=True)
class Kind:
    """A kind of network.

    Attributes:
        title: what its users call it.
        build: makes a small one.
        channels_first: whether it takes (B, 3, N) rather than (B, N, 3).
        revise: keyword arguments of `reqnn.revise`, but for ``rules="frames"``.
    """

    title: str
    build: Callable[[], nn.Module]
    channels_first: bool = True
    revise: dict[str, Any] = field(default_factory=dict)

    def points(self, batch: int = 4, n: int = SMALL_POINTS) -> Tensor:
        """An example input."""
        clouds = surfaces(batch, n)
        return clouds.transpose(1, 2).contiguous() if self.channels_first else clouds

    def options(self, rules: str) -> dict[str, Any]:
        """The keyword arguments of `reqnn.revise`."""
        return {"rules": rules} | ({"init": "copy"} if rules == "frames" else self.revise)


def _styled(title: str, style: Style) -> Kind:
    return Kind(title, lambda: style.build(small=True), style.channels_first, style.revise["paper"])


def black_box() -> nn.Module:
    """A network without Python code."""
    points = surfaces(4, SMALL_POINTS).transpose(1, 2)
    return torch.jit.trace(PointNet().eval().requires_grad_(False), points, check_trace=False)


_AUTO = {"coordinates": "auto"}

KINDS = (
    Kind("PointNet", PointNet),
    Kind("PointNet with T-Nets", TransformedPointNet, revise={"remove": ("stn", "fstn")}),
    _styled("PointNet++ (SSG)", STYLES["pointnet2_ssg"]),
    _styled("PointNet++ (MSG)", STYLES["pointnet2_msg"]),
    _styled("DGCNN", STYLES["dgcnn"]),
    _styled("PointConv", STYLES["pointconv"]),
    _styled("PCT (attention)", STYLES["pct"]),
    Kind("Point Transformer (vector attention)", PointTransformer, channels_first=False),
    _styled("residual MLP (PointMLP)", STYLES["residual_mlp"]),
    _styled("two branches (GDANet)", STYLES["two_branch"]),
    Kind("relations of neighbours (RS-CNN)", RelationShape, channels_first=False),
    Kind("spatial encoding, attentive pooling (RandLA-Net)", LocalSpatialEncoding, channels_first=False),
    Kind("gates (CurveNet)", CurveGate, channels_first=False),
    Kind("kernel points (KPConv)", KernelPointNet, channels_first=False, revise=_AUTO),
    Kind("monomials of coordinates (SpiderCNN)", SpiderNet, revise=_AUTO),
    Kind("learned directions (3D-GCN)", DirectionNet, channels_first=False, revise=_AUTO),
    Kind("autoencoder, folded grid, covariances (FoldingNet)", FoldingNet, revise=_AUTO),
    Kind("completion, coarse and fine (PCN)", CompletionNet, channels_first=False, revise=_AUTO),
    Kind("segmentation, feature propagation", Propagation, channels_first=False),
    Kind("black box (TorchScript)", black_box),
)
