"""The classifier that all classification models end with."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

from .arguments import scaled


class ClassificationHead(nn.Module):
    """Three fully connected layers from a global feature to logits, in → 512 → 256 → classes.

    Each hidden layer is Linear → BN → (Leaky)ReLU → Dropout; slope 0 is ReLU. Shapes: (B, in) → (B, num_classes).
    """

    def __init__(
        self,
        in_channel: int,
        num_classes: int,
        width: float = 1.0,
        dropout: float = 0.5,
        negative_slope: float = 0.0,
        first_bias: bool = True,
        second_bias: bool = True,
    ) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.fc1 = nn.Linear(in_channel, scaled(512, width), bias=first_bias)
        self.bn1 = nn.BatchNorm1d(scaled(512, width))
        self.drop1 = nn.Dropout(dropout)
        self.fc2 = nn.Linear(scaled(512, width), scaled(256, width), bias=second_bias)
        self.bn2 = nn.BatchNorm1d(scaled(256, width))
        self.drop2 = nn.Dropout(dropout)
        self.fc3 = nn.Linear(scaled(256, width), num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop1(F.leaky_relu(self.bn1(self.fc1(x)), self.negative_slope))
        x = self.drop2(F.leaky_relu(self.bn2(self.fc2(x)), self.negative_slope))
        return self.fc3(x)
