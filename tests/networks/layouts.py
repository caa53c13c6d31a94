"""Coordinates on a spatial axis of a convolution, and buffers that are filled place by place: old and ported code."""

import torch
from torch import nn


class KernelOverCoordinates(nn.Module):
    """(B, N, 3) as pictures (B, 1, N, 3); the first kernel covers x, y and z, as code ported from TensorFlow has it."""

    def __init__(self, width=3, channels=8, classes=5, kernel=None):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, channels, (1, width if kernel is None else kernel)), nn.BatchNorm2d(channels)
        self.second, self.head = nn.Conv2d(channels, channels, (1, 1)), nn.Linear(channels, classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x.unsqueeze(1))))
        return self.head(torch.relu(self.second(x)).mean((2, 3)))


class Buffer(nn.Module):
    """(B, 3, N): features of two layers in one buffer of arbitrary numbers; the first `written` channels are filled."""

    def __init__(self, written=16, classes=5):
        super().__init__()
        self.one, self.two, self.written = nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1), written
        self.norm, self.head = nn.BatchNorm1d(16), nn.Linear(16, classes)

    def forward(self, x):
        found = torch.full((x.shape[0], 16, x.shape[2]), 0.7)
        found[:, :8] = self.one(x)
        if self.written > 8:
            found[:, 8:] = self.two(x)
        return self.head(torch.relu(self.norm(found)).mean(2))
