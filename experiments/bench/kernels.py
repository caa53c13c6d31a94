"""Time of each compiled kernel against plain torch, and against the k-d tree of scipy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from experiments.bench.measure import Call, as_record, interleave
from reqnn import points as ours
from reqnn.data.surfaces import surfaces
from reqnn.kernels.run import switched
from reqnn.models import grouping as ordinary

if TYPE_CHECKING:
    from experiments.bench.command import Bench

Record = dict[str, Any]
KERNEL, REFERENCE, ORDINARY, KD_TREE = "kernel", "plain torch", "ordinary", "scipy cKDTree"
MEANING = {
    KERNEL: "our compiled kernel",
    REFERENCE: "our own reference: the same indices in plain torch, ties and all",
    ORDINARY: "the function of published networks in plain torch, which breaks ties by storage order",
    KD_TREE: "scipy's k-d tree, built and asked, on as many threads",
}
FPS, KNN, BALL, DENSITY = "farthest point sampling", "k-NN, 3-D", "ball query", "density"
FEATURES = "k-NN, D = 192"  # the features of DGCNN's second edge convolution, 64 quaternions
SAMPLED, NEIGHBOURS, IN_BALL, RADIUS, BANDWIDTH = 512, 20, 32, 0.2, 0.1


def measure_kernels(options: Bench, note: Callable[[str], None]) -> list[Record]:
    """Records of all kernels and sizes, the implementations interleaved; one query per point."""
    torch.set_num_threads(options.threads)
    records: list[Record] = []
    for points in options.points:
        xyz = surfaces(options.batch, points, options.seed, torch.float32)[0]
        for kernel, ways in all_ways(xyz, options.threads, options.seed).items():
            note(f"{kernel}, {options.batch} × {points} points")
            calls = [Call(name, run, partial(switched, name == KERNEL)) for name, run in ways.items()]
            timings = interleave(calls, options.repeats, options.max_seconds)
            where = {"kernel": kernel, "batch": options.batch, "points": points}
            records += [as_record(timing, timings[0], **where) for timing in timings]
    return records


def all_ways(xyz: Tensor, threads: int = 1, seed: int = 0) -> dict[str, dict[str, Callable[[], Any]]]:
    """Kernel → implementation → call, the kernel first. Shapes: xyz (B, N, 3)."""
    sampled, k, in_ball = (min(n, xyz.shape[1]) for n in (SAMPLED, NEIGHBOURS, IN_BALL))
    features = features_of(xyz, 192, seed)
    return {
        FPS: _ways(ours.farthest_point_sample, (xyz, sampled), ordinary.farthest_point_sample, (xyz, sampled)),
        KNN: {
            **_ways(ours.knn, (xyz, xyz, k), ordinary.knn_point, (k, xyz, xyz)),
            KD_TREE: partial(kd_tree, xyz, k, threads),
        },
        FEATURES: _ways(ours.knn, (features, features, k), ordinary.knn, (features.mT, k)),
        BALL: {
            **_ways(ours.ball_query, (xyz, xyz, RADIUS, in_ball), ordinary.query_ball_point, (RADIUS, in_ball, xyz, xyz)),
            KD_TREE: partial(kd_tree, xyz, in_ball, threads, RADIUS),
        },
        DENSITY: _ways(ours.density, (xyz, BANDWIDTH), ordinary.compute_density, (xyz, BANDWIDTH)),
    }


def _ways(own: Callable, arguments: tuple, other: Callable, others: tuple) -> dict[str, Callable[[], Any]]:
    return {KERNEL: partial(own, *arguments), REFERENCE: partial(own, *arguments), ORDINARY: partial(other, *others)}


def features_of(xyz: Tensor, width: int, seed: int) -> Tensor:
    """Features that vary smoothly over the surface, as those of a layer: (B, N, 3) → (B, N, width)."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(3, width, generator=generator, dtype=torch.float64).to(xyz.dtype)
    return torch.nn.functional.leaky_relu(xyz @ directions + 0.1, 0.2)


def kd_tree(xyz: Tensor, k: int, threads: int, radius: float = float("inf")) -> list[Any]:
    """Neighbours of every point by scipy, within a radius if given; a tree per cloud."""
    from scipy.spatial import cKDTree

    return [cKDTree(x).query(x, k, distance_upper_bound=radius, workers=threads)[1] for x in xyz.double().numpy()]
