"""Networks written with einops: its layers, and its functions."""

import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange, Reduce
from torch import nn


def einops_layers(classes=5):
    """(B, N, 3); Rearrange and Reduce as layers."""
    return nn.Sequential(
        Rearrange("b n c -> b c n"),
        nn.Conv1d(3, 12, 1),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        Rearrange("b (h c) n -> b h n c", h=2),
        nn.Linear(6, 8),
        nn.ReLU(),
        Reduce("b h n c -> b (h c)", "max"),
        nn.Linear(16, classes),
    )


class EinopsFunctions(nn.Module):
    """(B, 3, N); rearrange, reduce and repeat inside forward."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.local = nn.Linear(3, width)
        self.mixed = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.local(rearrange(x, "b c n -> b n c")))
        whole = reduce(x, "b n c -> b c", "mean")
        x = torch.cat([x, repeat(whole, "b c -> b n c", n=x.shape[1])], dim=-1)
        x = torch.relu(self.mixed(x))
        return self.head(reduce(x, "b n c -> b c", "max"))
