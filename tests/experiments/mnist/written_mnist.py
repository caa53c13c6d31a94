"""Small files of MNIST's form."""

import struct

import numpy as np

COUNT = {"train": 8, "test": 4}


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(folder, pack=lambda content: content, ending=""):
    """Small images of MNIST's form: a stroke of some length and width, labelled by number."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images = np.zeros((COUNT[split] + 2, 28, 28), np.uint8)
        for i, image in enumerate(images):
            image[4 : 10 + i, 5 : 12 + i % 3] = 100 + i
        (folder / f"{prefix}-images-idx3-ubyte{ending}").write_bytes(pack(idx(images)))
        (folder / f"{prefix}-labels-idx1-ubyte{ending}").write_bytes(pack(idx(np.arange(len(images)) % 10)))
    return folder
