"""The ordinary point operations of published networks: sampling, neighbour search, edge features, density.

They are the *original* operations, which the permutation rules of REQNN (Table 1) replace: farthest point sampling
starts at the first stored point, and the ball query keeps the first points in storage order. Models call them by their
global name, so that `reqnn.revise` finds and swaps them in a revised copy. None reads a value in Python: all can be
exported.
"""

from __future__ import annotations

import torch


def square_distance(src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """Squared distance between each pair of points, ‖s‖² − 2⟨s, d⟩ + ‖d‖².

    Shapes: src (B, N, C), dst (B, M, C) → (B, N, M).
    """
    dist = -2 * torch.matmul(src, dst.transpose(1, 2))
    dist = dist + torch.sum(src**2, -1).unsqueeze(2)
    return dist + torch.sum(dst**2, -1).unsqueeze(1)


def index_points(points: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
    """Gather points by index, each cloud its own.

    Shapes: points (B, N, C), idx (B, S) or (B, S, K) → (B, S, C) or (B, S, K, C).
    """
    B, N = points.shape[:2]
    first = torch.arange(B, device=idx.device).view([B] + [1] * (idx.dim() - 1)) * N  # where each cloud starts
    # One flat index_select: its backward is six times faster than that of points[batch, idx].
    rows = points.flatten(0, 1).index_select(0, (idx + first).flatten())
    return rows.view(*idx.shape, -1)


def farthest_point_sample(xyz: torch.Tensor, npoint: int) -> torch.Tensor:
    """Sample points one by one, each the farthest from those before; the first is the first in storage.

    Shapes: xyz (B, N, 3) → (B, npoint) int64. Qi et al., PointNet++, NeurIPS 2017, section 3.2.
    """
    farthest = torch.zeros(xyz.shape[0], 1, dtype=torch.long, device=xyz.device)
    centroids = [farthest]
    distance = torch.sum((xyz - index_points(xyz, farthest)) ** 2, -1)
    for _ in range(npoint - 1):
        farthest = torch.argmax(distance, -1, keepdim=True)
        centroids.append(farthest)
        distance = torch.minimum(distance, torch.sum((xyz - index_points(xyz, farthest)) ** 2, -1))
    return torch.cat(centroids, dim=1)


def voting_samples(xyz: torch.Tensor, npoint: int, votes: int) -> list[torch.Tensor]:
    """`votes` samples of a cloud, each of points far apart: of all points, then without the first, the second, ….

    One point less at the start leads to other points all the way. What is left out is decided by few steps of the search, those
    with the largest distances, so that rounding hardly ever decides. A cloud that has no point to spare gives one sample.

    Shapes: xyz (B, N, 3), N ≥ npoint → one or `votes` times (B, npoint, 3).
    """
    first = farthest_point_sample(xyz, npoint)
    samples = [index_points(xyz, first)]
    for rest in clouds_without(xyz, first, votes - 1):
        samples.append(index_points(rest, farthest_point_sample(rest, npoint)))
    return samples


def clouds_without(xyz: torch.Tensor, sample: torch.Tensor, count: int) -> list[torch.Tensor]:
    """The cloud without the first point of its sample, without the second, …: `count` clouds, none where it is the whole cloud.

    Shapes: xyz (B, N, 3), sample (B, S) → at most `count` times (B, N − 1, 3).
    """
    size = xyz.shape[1]
    if count < 1 or sample.shape[1] >= size:  # an unbind of no samples could be exported, but not loaded
        return []
    places = torch.arange(size - 1, device=xyz.device)
    return [index_points(xyz, places + (places >= one[:, None])) for one in sample[:, :count].unbind(1)]


def query_ball_point(radius: float, nsample: int, xyz: torch.Tensor, new_xyz: torch.Tensor) -> torch.Tensor:
    """First `nsample` points in storage order within `radius` of each centre, padded with the first found.

    Shapes: xyz (B, N, 3), centres new_xyz (B, S, 3) → (B, S, min(nsample, N)) int64.
    Qi et al., PointNet++, NeurIPS 2017, section 3.2.
    """
    N = xyz.shape[1]
    sqrdists = square_distance(new_xyz, xyz)
    group_idx = torch.arange(N, device=xyz.device).expand_as(sqrdists)
    group_idx = group_idx.masked_fill(sqrdists > radius**2, N)
    group_idx = group_idx.topk(min(nsample, N), dim=-1, largest=False, sorted=True)[0]
    group_idx = torch.where(group_idx == N, group_idx[:, :, :1], group_idx)
    # A centre that is no point of the cloud may find nothing: the last point then stands in, and the index stays valid.
    return group_idx.clamp(max=N - 1)


def knn_point(nsample: int, xyz: torch.Tensor, new_xyz: torch.Tensor) -> torch.Tensor:
    """Index of the `nsample` points nearest to each centre.

    Shapes: xyz (B, N, 3), centres new_xyz (B, S, 3) → (B, S, nsample) int64.
    """
    return square_distance(new_xyz, xyz).topk(nsample, dim=-1, largest=False)[1]


def interpolate_features(xyz: torch.Tensor, centres: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Features at points: the mean of those of the three nearest centres, weighted by 1/d². One centre: its features.

    Shapes: xyz (B, N, 3), centres (B, S, 3), features (B, S, C) → (B, N, C). Qi et al., PointNet++, section 3.4.
    """
    if features.shape[1] == 1:
        return features.expand(-1, xyz.shape[1], -1)
    idx = knn_point(min(3, features.shape[1]), centres, xyz)
    weights = 1 / (torch.sum((index_points(centres, idx) - xyz.unsqueeze(2)) ** 2, -1) + 1e-8)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return torch.sum(index_points(features, idx) * weights.unsqueeze(-1), dim=2)


def knn(x: torch.Tensor, k: int) -> torch.Tensor:
    """Index of the k points nearest in feature space, the point itself included.

    Shapes: x (B, C, N) → (B, N, k) int64. Wang et al., DGCNN, TOG 2019, section 3.2.
    """
    points = x.transpose(2, 1)
    return square_distance(points, points).topk(k, dim=-1, largest=False)[1]


def get_graph_feature(x: torch.Tensor, k: int, cloud: torch.Tensor | None = None) -> torch.Tensor:
    """Edge features [f_j − f_i, f_i] of each point i and its k nearest neighbours j in feature space, or in another `cloud`.

    Shapes: x (B, C, N), cloud (B, C, M) → (B, 2C, N, k). Wang et al., DGCNN, TOG 2019, equation 8.
    """
    points = x.transpose(2, 1)
    if cloud is None:
        neighbours = index_points(points, knn(x, k))
    else:
        others = cloud.transpose(2, 1)
        neighbours = index_points(others, knn_point(k, others, points))
    centres = points.unsqueeze(2).expand_as(neighbours)
    return torch.cat([neighbours - centres, centres], dim=3).permute(0, 3, 1, 2).contiguous()


def compute_density(xyz: torch.Tensor, bandwidth: float) -> torch.Tensor:
    """Kernel density at each point, mean_j exp(−‖x_i − x_j‖² / 2h²) / 2.5h.

    Shapes: xyz (B, N, 3) → (B, N). Wu et al., PointConv, CVPR 2019, section 3.
    """
    gaussian = torch.exp(-square_distance(xyz, xyz) / (2.0 * bandwidth**2)) / (2.5 * bandwidth)
    return gaussian.mean(dim=-1)
