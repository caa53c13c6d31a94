"""Tiny ModelNet40 and 3D MNIST on disk, and a budget for them, so that a cell of Table 4 takes a second."""

import h5py
import numpy as np

from experiments.paper.budgets import Budget

CLASSES = ("bar", "disc", "ball")
POINTS = 48

TINY = Budget(
    name="quick",
    summary="for tests",
    settings={
        "points": 32,
        "epochs": 2,
        "batch": 8,
        "optimizer": "adamw",
        "lr": 3e-3,
        "threads": 1,
        "accelerator": "cpu",
        "options": {"width": 0.03125},
    },
    networks={
        "dgcnn": {"options": {"k": 4}},
        "pointnet2": {"options": {"npoint": [16, 8], "radius": [0.6, 1.2], "nsample": [4, 4]}},
        "pointconv": {"options": {"npoint": [16, 8], "nsample": [4, 4]}},
    },
    copies=3,
)


def shapes(count, seed):
    """Bars, discs and balls: clouds (count, POINTS, 3) in the unit sphere and labels (count, 1)."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % len(CLASSES)
    stretch = np.array([[0.1, 1, 0.15], [1, 0.1, 0.9], [1, 0.9, 0.95]])[labels]
    points = random.normal(size=(count, POINTS, 3)) * stretch[:, None]
    points -= points.mean(1, keepdims=True)
    points /= np.linalg.norm(points, axis=-1).max(1)[:, None, None]
    return points.astype(np.float32), labels[:, None].astype(np.uint8)


def write_data(root):
    """Both data sets in PointNet's layout, in the folders that they are looked for in."""
    for number, folder in enumerate(("modelnet40_ply_hdf5_2048", "3d_mnist")):
        (root / folder).mkdir(parents=True)
        for split, count in (("train", 48), ("test", 9)):
            points, labels = shapes(count, 10 * number + count)
            with h5py.File(root / folder / f"ply_data_{split}0.h5", "w") as file:
                file["data"], file["label"] = points, labels
        if number == 0:
            (root / folder / "shape_names.txt").write_text("\n".join(CLASSES) + "\n")
    return root
