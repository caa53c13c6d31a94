"""Rotation-equivariant, permutation-invariant networks for 3D point clouds, revised from ordinary ones."""

__version__ = "0.1.0"
