"""Sampling and grouping as people write them: by storage order, from a random start, with 3 coordinates hard-coded."""

import torch


def farthest_point_sample(xyz, npoint):
    """(B, N, 3) → (B, npoint), from a random first point."""
    batch, count, _ = xyz.shape
    rows = torch.arange(batch)
    nearest = torch.full((batch, count), 1e10).to(xyz.device)
    current = torch.randint(0, count, (batch,))
    picks = []
    for _ in range(npoint):
        picks.append(current)
        here = xyz[rows, current, :].view(batch, 1, 3)
        nearest = torch.minimum(nearest, torch.sum((xyz - here) ** 2, -1))
        current = torch.max(nearest, -1)[1]
    return torch.stack(picks, dim=1)


def squared_distances(a, b):
    """(B, N, C), (B, M, C) → (B, N, M), by the binomial formula."""
    out = -2 * torch.matmul(a, b.permute(0, 2, 1))
    out += torch.sum(a**2, -1).view(a.shape[0], -1, 1)
    out += torch.sum(b**2, -1).view(b.shape[0], 1, -1)
    return out


def query_ball_point(radius, nsample, xyz, new_xyz):
    """Return the first nsample points in storage within the radius, padded with the first of them."""
    batch, count, _ = xyz.shape
    index = torch.arange(count).view(1, 1, count).repeat([batch, new_xyz.shape[1], 1])
    index[squared_distances(new_xyz, xyz) > radius**2] = count
    index = index.sort(dim=-1)[0][:, :, :nsample]
    first = index[:, :, :1].repeat([1, 1, nsample])
    return torch.where(index == count, first, index)


def index_points(points, index):
    """(B, N, C) and (B, …) → (B, …, C)."""
    rows = torch.arange(index.shape[0]).view(-1, *[1] * (index.dim() - 1))
    return points[rows.expand_as(index), index, :]
