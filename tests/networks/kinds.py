"""Things that public code does: masks before a maximum, vmap, scripted helpers. Whole kinds: experiments/networks."""

import torch
import torch.nn.functional as F
from torch import nn

from experiments.networks.grouping import knn


class MaskedPooling(nn.Module):
    """Neighbours beyond a radius are filled with −∞ before the maximum; rows by F.embedding."""

    def __init__(self, classes=5, k=8, width=8):
        super().__init__()
        self.k = k
        self.first, self.norm, self.head = nn.Linear(6, width), nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, xyz):
        batch, count, _ = xyz.shape
        index = knn(xyz, self.k) + torch.arange(batch).view(-1, 1, 1) * count
        near = F.embedding(index, xyz.reshape(-1, 3))
        offset = near - xyz.unsqueeze(2)
        x = self.first(torch.cat([offset, near], -1))
        x = x.masked_fill((offset.norm(dim=-1) > 0.8).unsqueeze(-1), float("-inf")).max(2)[0]
        return self.head(F.relu(self.norm(x.transpose(1, 2))).max(-1)[0])


class WithMapped(nn.Module):
    """torch.vmap over the clouds."""

    def __init__(self):
        super().__init__()
        self.local, self.head = nn.Linear(3, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.vmap(lambda cloud: cloud - cloud.mean(0))(x)
        return self.head(self.local(x).amax(1))


@torch.jit.script
def centred(x: torch.Tensor) -> torch.Tensor:
    """Subtract the mean, compiled."""
    return x - x.mean(1, keepdim=True)


class WithScripted(WithMapped):
    """A scripted helper."""

    def forward(self, x):
        return self.head(self.local(centred(x)).amax(1))
