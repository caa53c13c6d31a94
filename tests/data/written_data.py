"""Clouds, HDF5 files and meshes for the tests of loaders to read."""

import h5py
import numpy as np


def clouds(count, points=16, seed=0):
    """Random clouds (count, points, 3) float32."""
    return np.random.default_rng(seed).normal(size=(count, points, 3)).astype(np.float32)


def write_hdf5(path, **fields):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, value in fields.items():
            file[name] = value
    return path


BOX = """OFF
8 6 0
0 0 0
1 0 0
1 2 0
0 2 0
0 0 3
1 0 3
1 2 3
0 2 3
4 0 3 2 1
4 4 5 6 7
4 0 1 5 4
4 1 2 6 5
4 2 3 7 6
4 3 0 4 7
"""


def box(scale=1.0):
    """The text of a box, larger by a factor: another file, another shape."""
    lines = BOX.splitlines()
    lines[2:10] = [" ".join(str(scale * float(part)) for part in line.split()) for line in lines[2:10]]
    return "\n".join(lines) + "\n"
