"""Reconstruction of exactly mirror-symmetric objects: how far does it leave the mirror plane?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from experiments.autoencoders.latent import decode, encode
from reqnn import data
from reqnn.data.dataset import PointClouds
from reqnn.tensor import QuaternionTensor
from reqnn.train.distance import chamfer_distance
from reqnn.train.evaluation import in_double
from reqnn.train.run import Run

SYMMETRIC = {
    "modelnet40": ("airplane", "chair", "sofa", "car"),
    "shapenet": ("Airplane", "Chair", "Car", "Motorbike"),
    "digits": ("0", "1", "3", "8"),
}
"""Classes whose objects have one mirror plane."""


def mirror_plane(run: Run, name: str) -> list[dict[str, Any]]:
    """For one test object of each symmetric class: how far latent and reconstruction extend off its plane.

    `extent` is the spread of the reconstruction perpendicular to the plane, relative to the object's; `in_plane` the same for
    the latent projected onto the plane; `latent` the share of the latent's vectors off the plane.
    """
    net, found = in_double(run.model), []
    clouds = data.load(name, "test", points=run.config.points)
    for label in SYMMETRIC.get(name, clouds.classes[:4]):
        cloud, axis = symmetric_cloud(clouds, label, run.config.points)
        with torch.no_grad():
            latent = encode(net, cloud[None])
            made = decode(net, latent)[0]
        record = {"object": label, "axis": "xyz"[axis], "extent": _spread(made, axis) / _spread(cloud, axis)}
        if isinstance(latent, QuaternionTensor):
            vectors = latent.components[:, 0]
            record["latent"] = float(vectors[axis].norm() / vectors.norm())
            flat = vectors.clone()
            flat[axis] = 0
            with torch.no_grad():
                record["in_plane"] = _spread(decode(net, latent.same(flat[:, None]))[0], axis) / _spread(cloud, axis)
        found.append(record)
    return found


def symmetric_cloud(clouds: PointClouds, label: str, points: int) -> tuple[Tensor, int]:
    """The first object of a class, folded onto one side, and its mirror image: (points, 3) float64, and the axis across."""
    cloud = clouds.points[int((clouds.labels == clouds.classes.index(label)).nonzero()[0])].double()
    sides = [axis for axis in range(3) if "xyz"[axis] != clouds.up]
    axis = min(sides, key=lambda a: float(chamfer_distance(cloud[None], _mirrored(cloud, a)[None])))
    half = cloud[: points // 2].clone()
    half[:, axis] = half[:, axis].abs()
    return torch.cat([half, _mirrored(half, axis)]), axis


def _mirrored(cloud: Tensor, axis: int) -> Tensor:
    signs = torch.ones(3, dtype=cloud.dtype)
    signs[axis] = -1
    return cloud * signs


def _spread(cloud: Tensor, axis: int) -> float:
    return float(cloud[:, axis].square().mean().sqrt())
