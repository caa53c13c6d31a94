"""Clouds that the tests of reqnn.points share: generic, with exact ties, with duplicates, symmetric."""

import torch
from hypothesis import strategies as st

from reqnn import quaternion

DTYPES = [torch.float32, torch.float64]
seeds = st.integers(0, 2**31 - 1)


def generic(seed, points=40, batch=2, dtype=torch.float64, dim=3):
    """Points without ties or symmetry."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, points, dim, generator=generator, dtype=torch.float64).to(dtype)


def grid(seed, points=60, side=5, batch=2, dtype=torch.float64):
    """A random part of a cubic grid: many distances are exactly equal, yet no symmetry is left."""
    generator = torch.Generator().manual_seed(seed)
    axis = torch.arange(side, dtype=dtype)
    full = torch.cartesian_prod(axis, axis, axis)
    return torch.stack([full[torch.randperm(len(full), generator=generator)[:points]] for _ in range(batch)])


def whole_grid(seed=0, side=3, dtype=torch.float64):
    """A cubic grid, which 24 rotations leave as it is."""
    return grid(seed, side**3, side, 1, dtype)


def cube(dtype=torch.float64):
    """The eight corners of a cube, all images of each other."""
    axis = torch.tensor([-1.0, 1.0], dtype=dtype)
    return torch.cartesian_prod(axis, axis, axis)[None]


def moved(xyz, seed):
    """The cloud turned by a random orthogonal map (a rotation for D = 3) and reordered; and the new order."""
    generator = torch.Generator().manual_seed(seed)
    dim = xyz.shape[2]
    if dim == 3:
        turn = quaternion.random_matrix((), generator, torch.float64)
    else:
        turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    order = torch.randperm(xyz.shape[1], generator=generator)
    return (xyz @ turn.to(xyz.dtype).T)[:, order], order


class Quaternions:
    """Stands for a QuaternionTensor: all that reqnn.points asks of one."""

    def __init__(self, xyz):
        self.xyz = xyz

    def as_real_coordinates(self):
        return self.xyz


def take(xyz, index):
    """Points by index: (B, N, D), (B, ...) -> (B, ..., D)."""
    return torch.stack([cloud[i] for cloud, i in zip(xyz, index, strict=True)])
