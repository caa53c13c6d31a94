"""Meshes, and rotations for them."""

import numpy as np
import torch
import trimesh

from reqnn.data import random_rotations


def solids():
    """Meshes of three kinds without symmetries, far from the origin and of any size: name → (vertices, faces)."""
    random = np.random.default_rng(0)
    found = {}
    for name, mesh in {
        "box": trimesh.creation.box((1, 2, 3)),
        "ball": trimesh.creation.icosphere(subdivisions=2),
        "ring": trimesh.creation.torus(3, 1, major_sections=12, minor_sections=8),
    }.items():
        bumps = 0.15 * random.normal(size=mesh.vertices.shape)
        found[name] = 7 * (np.asarray(mesh.vertices) + bumps) + [50, -20, 10], np.asarray(mesh.faces)
    return found


def rotations(count, seed=0):
    return random_rotations(count, "AR", torch.Generator().manual_seed(seed)).numpy()
