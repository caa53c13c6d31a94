"""MNIST's idx files, downloaded and verified."""

from __future__ import annotations

import hashlib
from http.client import HTTPException
from pathlib import Path

from reqnn.data.loading import data_root
from reqnn.errors import InputError

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""Name → SHA-256."""


def download(root: str | Path | None = None) -> list[Path]:
    """Download the missing files to the folder `mnist` of the data root; return their paths."""
    return [fetch(file, checksum, data_root(root) / "mnist", MIRRORS) for file, checksum in FILES.items()]


def fetch(file: str, checksum: str, folder: Path, mirrors: tuple[str, ...]) -> Path:
    """Download one file from the first mirror that works; its SHA-256 is checked before it is renamed."""
    from torch.hub import download_url_to_file

    path, failures = folder / file, ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == checksum:
            return path
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); set REQNN_DATA to another folder") from error
    for mirror in mirrors:
        try:
            download_url_to_file(mirror + file, str(path), hash_prefix=checksum, progress=False)
            return path
        except (OSError, HTTPException) as error:  # no connection, a refusal of the server, a broken connection, a full disk
            failures += f"\n  {mirror}: {error}"
        except RuntimeError:  # raised by torch for a wrong checksum
            failures += f"\n  {mirror}: the checksum is not {checksum[:12]}…; discarded"
    raise InputError(f"{file} could not be downloaded:{failures}\nTry again, or put it into {folder} yourself")
