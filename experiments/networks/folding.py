"""Autoencoders that fold a grid into a cloud: FoldingNet (Yang et al. 2018) and PCN (Yuan et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from experiments.networks.grouping import gather, knn


def grid(side: int) -> Tensor:
    """(2, side²) points of a square."""
    line = torch.linspace(-1, 1, side)
    return torch.stack(torch.meshgrid(line, line, indexing="ij")).flatten(1)


class GraphEncoder(nn.Module):
    """(B, 3, N) → (B, width): coordinates beside the covariance of each neighbourhood, in 9 channels."""

    def __init__(self, width: int = 12, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.mlp1 = nn.Sequential(nn.Conv1d(12, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 16, 1))
        self.mlp2 = nn.Sequential(nn.Conv1d(16, 24, 1), nn.BatchNorm1d(24), nn.ReLU())
        self.code = nn.Sequential(nn.Linear(24, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """The code."""
        xyz = x.transpose(1, 2)
        index = knn(xyz, self.k)
        near = gather(xyz, index)
        near = near - near.mean(2, keepdim=True)
        covariance = torch.matmul(near.transpose(2, 3), near).flatten(2)
        x = self.mlp1(torch.cat([xyz, covariance], -1).transpose(1, 2))
        x = gather(x.transpose(1, 2), index).max(2)[0]
        return self.code(self.mlp2(x.transpose(1, 2)).max(2)[0])


class FoldingDecoder(nn.Module):
    """(B, width) → (B, 3, side²): a grid, folded twice."""

    grid: Tensor

    def __init__(self, width: int = 12, side: int = 6) -> None:
        super().__init__()
        self.fold1 = nn.Sequential(nn.Conv1d(width + 2, 16, 1), nn.ReLU(), nn.Conv1d(16, 3, 1))
        self.fold2 = nn.Sequential(nn.Conv1d(width + 3, 16, 1), nn.ReLU(), nn.Conv1d(16, 3, 1))
        self.register_buffer("grid", grid(side))

    def forward(self, code: Tensor) -> Tensor:
        """The cloud."""
        square = self.grid.unsqueeze(0).expand(code.shape[0], -1, -1)
        code = code.unsqueeze(2).expand(-1, -1, square.shape[2])
        first = self.fold1(torch.cat([code, square], 1))
        return self.fold2(torch.cat([code, first], 1))


class FoldingNet(nn.Module):
    """(B, 3, N) → (B, 3, side²)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = GraphEncoder(), FoldingDecoder()

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction."""
        return self.decoder(self.encoder(x))


class CompletionDecoder(nn.Module):
    """(B, width) → a coarse cloud (B, coarse, 3), and a fine one: a small grid around each of its points."""

    grid: Tensor

    def __init__(self, width: int = 16, coarse: int = 8, side: int = 2) -> None:
        super().__init__()
        self.coarse = coarse
        self.points = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 3 * coarse))
        self.fold = nn.Sequential(nn.Conv1d(width + 5, 24, 1), nn.ReLU(), nn.Conv1d(24, 3, 1))
        self.register_buffer("grid", 0.05 * grid(side))

    def forward(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """The two clouds."""
        coarse = self.points(code).reshape(-1, self.coarse, 3)
        side = self.grid.shape[1]
        centre = coarse.unsqueeze(2).expand(-1, -1, side, -1).reshape(len(code), -1, 3)
        seed = self.grid.t().repeat(self.coarse, 1).expand(len(code), -1, -1)
        whole = code.unsqueeze(1).expand(-1, centre.shape[1], -1)
        fine = self.fold(torch.cat([seed, centre, whole], -1).transpose(1, 2)).transpose(1, 2) + centre
        return coarse, fine


class CompletionNet(nn.Module):
    """(B, N, 3) → a coarse and a fine cloud; the encoder joins the features of each point with their maximum."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(3, 12, 1), nn.BatchNorm1d(12), nn.ReLU(), nn.Conv1d(12, 12, 1))
        self.second = nn.Sequential(nn.Conv1d(24, 24, 1), nn.BatchNorm1d(24), nn.ReLU(), nn.Conv1d(24, width, 1))
        self.decoder = CompletionDecoder(width)

    def forward(self, xyz: Tensor) -> tuple[Tensor, Tensor]:
        """The two clouds."""
        x = self.first(xyz.transpose(1, 2))
        x = torch.cat([x, x.max(2, keepdim=True)[0].expand_as(x)], 1)
        return self.decoder(self.second(x).max(2)[0])
