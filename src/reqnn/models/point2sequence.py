"""Point2Sequence: areas of growing size around a point, read as a sequence (Liu et al., AAAI 2019)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn as nn
import torch.nn.functional as F

from ..errors import check_choice
from .grouping import farthest_point_sample, index_points, knn_point
from .layers import ClassificationHead, PooledMLP, check_points, scaled
from .registry import register

AREAS = ((32, 64, 128), (64, 64, 128), (64, 64, 128), (128, 128, 128))
"""Widths of the PointNet of each area, from the smallest area to the largest."""


class LSTMCell(nn.Module):
    """c' = σ(f + 1)·c + σ(i)·tanh(j), h' = σ(o)·tanh(c'), with (i, j, f, o) = W x + U h + b (the cell of TensorFlow).

    Shapes: x (R, C), state h and c, each (R, H), or None for zeros → h' and c', each (R, H).
    """

    def __init__(self, in_channels: int, hidden: int) -> None:
        super().__init__()
        self.input, self.state = nn.Linear(in_channels, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None) -> tuple[torch.Tensor, torch.Tensor]:
        gates = self.input(x)
        h, c = state or (torch.zeros_like(gates.chunk(4, dim=1)[0]),) * 2
        i, j, f, o = (gates + self.state(h)).chunk(4, dim=1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
        return torch.sigmoid(o) * torch.tanh(c), c


class AttentionSequence(nn.Module):
    """The feature of a region from those of its areas: an LSTM reads them, one step of another attends to what it read.

    q = the decoder's h for the input [last h of the encoder; 0]; α_t = softmax_t vᵀ tanh(W_q q + W_m h_t);
    a = tanh(W_a [q; Σ_t α_t h_t]). `attention`: "paper" returns a; "published" q, as the authors' code does: its attention is
    computed too late to have an effect.

    Shapes: T areas, each (R, C) → (R, C).
    """

    def __init__(self, channels: int, attention: str) -> None:
        super().__init__()
        self.attention = attention
        self.encoder, self.decoder = LSTMCell(channels, channels), LSTMCell(2 * channels, channels)
        self.query, self.memory = nn.Linear(channels, channels, bias=False), nn.Linear(channels, channels, bias=False)
        self.score = nn.Linear(channels, 1, bias=False)
        self.attended = nn.Linear(2 * channels, channels, bias=False)

    def forward(self, *areas: torch.Tensor) -> torch.Tensor:
        state, states = None, []
        for area in areas:
            state = self.encoder(area, state)
            states.append(state[0])
        q, _ = self.decoder(torch.cat([states[-1], torch.zeros_like(states[-1])], dim=1), None)
        if self.attention == "published":
            return q
        memory = torch.stack(states, dim=1)  # (R, T, C)
        weights = torch.softmax(self.score(torch.tanh(self.query(q).unsqueeze(1) + self.memory(memory))), dim=1)
        return torch.tanh(self.attended(torch.cat([q, (weights * memory).sum(1)], dim=1)))


@register("point2sequence", to_real="sequence.encoder.input", coordinates=("regions",))
class Point2Sequence(nn.Module):
    """Four areas around each of 384 points, an LSTM with attention over them, then a PointNet over the points.

    | stage | sizes | widths |
    |---|---|---|
    | areas: PointNets on offsets of the 16, 32, 64, 128 nearest, max | 384 | 3→32→64→128, 3→64→64→128 (twice), 3→128→128→128 |
    | sequence: encoder over the areas, decoder, attention | | 128→128 |
    | conv | | 128→128 |
    | regions: PointNet on [x_i, features], max | 384 | 131→256→512→1024 |
    | head | | 1024→512→256→classes |

    Revised, areas are quaternions; the sequence reads their squared norms, and `regions` the coordinates in the PCA frame.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: int = 384,
        nsample: tuple[int, int, int, int] = (16, 32, 64, 128),
        attention: Literal["paper", "published"] = "paper",
        dropout: float = 0.6,
    ) -> None:
        super().__init__()
        check_choice(attention, ("paper", "published"), "attention")
        self.npoint, self.nsample = npoint, tuple(nsample)
        self.min_points = max(npoint, *nsample)
        c = scaled(128, width)
        self.areas = nn.ModuleList([PooledMLP(3, [scaled(out, width) for out in widths]) for widths in AREAS])
        self.sequence = AttentionSequence(c, attention)
        self.bn, self.conv = nn.BatchNorm1d(c), nn.Sequential(nn.Conv1d(c, c, 1), nn.BatchNorm1d(c), nn.ReLU())
        self.regions = PooledMLP(3 + c, [scaled(out, width) for out in (256, 512, 1024)])
        self.head = ClassificationHead(scaled(1024, width), num_classes, width, dropout)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.npoint, f"Point2Sequence samples npoint = {self.npoint} points")
        check_points(points, max(self.nsample), f"its largest area has nsample = {max(self.nsample)} points", "nsample")
        centres = index_points(points, farthest_point_sample(points, self.npoint))
        idx = knn_point(max(self.nsample), points, centres)  # nearest first: each area is a part of the next
        areas = [area(points, None, centres, idx[:, :, :k]) for area, k in zip(self.areas, self.nsample, strict=True)]
        region = self.sequence(*(area.transpose(1, 2).flatten(0, 1) for area in areas))
        region = region.unflatten(0, (points.shape[0], self.npoint)).transpose(1, 2)  # (B, C, S)
        region = self.conv(F.relu(self.bn(region)))
        return self.head(self.regions(centres, region.transpose(1, 2), None, None).squeeze(-1))
