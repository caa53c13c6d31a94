"""Verified downloads."""

from __future__ import annotations

import hashlib
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from reqnn.data.loading import data_root
from reqnn.data.sets import SETS
from reqnn.errors import InputError


class Download(NamedTuple):
    """Files to download: the folder under the data root; addresses, tried in this order; name → SHA-256."""

    folder: str
    mirrors: tuple[str, ...]
    files: dict[str, str]


DOWNLOADS = {
    "mnist": Download(
        "mnist",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        {
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    )
}


def download(name: str, root: str | Path | None = None) -> list[Path]:
    """Download the missing files of a data set to the data root; return their paths.

    Only files with a stable address and a known checksum can be downloaded; for others the error says how to get them.
    """
    if name in DOWNLOADS:
        folder, mirrors, files = DOWNLOADS[name]
        return [fetch(file, checksum, data_root(root) / folder, mirrors) for file, checksum in files.items()]
    if name not in SETS:
        raise InputError(f"{name!r} is no data set; downloadable: {', '.join(DOWNLOADS)}; others: {', '.join(SETS)}")
    known = SETS[name]
    if known.embedded is not None:
        raise InputError(f"{name} is part of the package: there is nothing to download")
    where = data_root(root) / known.folders[0]
    raise InputError(f"download {name} manually (no verified checksum). {known.how_to_get}\nPut it into {where}")


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
