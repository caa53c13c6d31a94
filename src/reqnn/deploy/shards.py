"""Clouds by the million, cut into shards: read from any fsspec path, answered, written as one Parquet file per shard.

The name of a shard's file depends on the inputs only, and it appears when it is complete. So a shard that is computed twice is
written once, and one that is there need not be computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fsspec.core import url_to_fs
from torch import Tensor

from reqnn.data.shape_file import SUFFIXES
from reqnn.deploy.embedding import embed
from reqnn.errors import InputError, check_least
from reqnn.extras import need
from reqnn.pretrained import cloud_in_any_pose
from reqnn.pretrained.classify import answer_each, attempt, cloud_of_vertices
from reqnn.train.prediction import predict

TABLES = (".parquet", ".h5", ".hdf5")
BATCH = 16


@dataclass(frozen=True)
class Shard:
    """A piece of the work: files of one cloud each, or rows of a Parquet or HDF5 file."""

    number: int
    files: tuple[str, ...]
    rows: range | None = None

    @property
    def names(self) -> list[str]:
        """Of its clouds, as they appear in the results."""
        return list(self.files) if self.rows is None else [f"{self.files[0]}#{row}" for row in self.rows]

    def clouds(self, points: int, seed: int) -> Iterator[Tensor | str]:
        """The clouds (points, 3), centred and scaled, or why one cannot be read; in the order of `names`."""
        if self.rows is None:
            yield from (attempt(file, _read_file, file, points, seed) for file in self.files)
            return
        try:
            rows = _read_rows(self.files[0], self.rows)
        except Exception as error:  # pyarrow and h5py raise what they like on a damaged file
            yield from [f"{self.files[0]} cannot be read: {error}"] * len(self.rows)
            return
        yield from (attempt(name, _read_row, row, points, seed, name) for row, name in zip(rows, self.names, strict=True))


@dataclass(frozen=True)
class Job:
    """What is asked of each cloud, and where the answers go: `out`/results and `out`/failed, files as shards are numbered.

    Attributes:
        task: "predict" or "embed".
        out: a folder, any fsspec path.
        points: to sample per cloud.
        seed: of the choice of points.
        top: how many classes `predict` lists.
    """

    task: str
    out: str
    points: int
    seed: int = 0
    top: int = 5

    def begin(self, shards: Sequence[Shard], network: str) -> list[Shard]:
        """The shards that have no results yet; `InputError` if the folder holds the results of another job."""
        inputs = hashlib.sha256(repr([(s.files, s.rows) for s in shards]).encode()).hexdigest()
        about = {**asdict(self), "out": None, "network": network, "inputs": inputs}
        fs, root = url_to_fs(self.out)
        if fs.exists(f"{root}/job.json"):
            there = json.loads(fs.cat_file(f"{root}/job.json"))
            different = [name for name in about if there.get(name) != about[name]]
            if different:
                raise InputError(
                    f"{self.out} holds the results of another job ({', '.join(different)} differ); choose another --out"
                )
        fs.makedirs(f"{root}/results", exist_ok=True)
        fs.makedirs(f"{root}/failed", exist_ok=True)
        fs.pipe_file(f"{root}/job.json", (json.dumps(about, indent=2) + "\n").encode())
        done = {Path(name).name for name in fs.ls(f"{root}/results", detail=False, refresh=True)}
        return [shard for shard in shards if _part(shard) not in done]

    def work(self, network: Any, shard: Shard) -> tuple[int, int]:
        """Read, answer and write a shard; the numbers of clouds that were answered and that failed."""
        clouds = list(shard.clouds(self.points, self.seed))
        found = dict(enumerate(answer_each(shard.names, clouds, partial(self._answers, network))))
        errors = {place: answer for place, answer in found.items() if isinstance(answer, str)}
        return self.write(shard, {place: found[place] for place in found.keys() - errors.keys()}, errors)

    def write(self, shard: Shard, rows: dict[int, dict[str, Any]], errors: dict[int, str]) -> tuple[int, int]:
        """The failed ones first: once the results are there, the shard is done."""
        names, arrow = shard.names, need("pyarrow")
        if errors:
            table = [{"files": names[i], "errors": errors[i]} for i in sorted(errors)]
            _write(f"{self.out}/failed/{_part(shard)}", table, {"errors": arrow.string()})
        if self.task == "embed":
            columns = {"embeddings": arrow.list_(arrow.float32())}
        else:
            columns = {"classes": arrow.list_(arrow.string()), "probabilities": arrow.list_(arrow.float64())}
        _write(f"{self.out}/results/{_part(shard)}", [{"files": names[i], **rows[i]} for i in sorted(rows)], columns)
        return len(rows), len(errors)

    def _answers(self, network: Any, clouds: Tensor) -> list[dict[str, Any]]:
        if self.task == "embed":
            return [{"embeddings": row} for row in embed(clouds, network).float().numpy()]
        shares, labels = predict(network, clouds, BATCH).double().softmax(-1).topk(min(self.top, len(network.classes)))
        answers = zip(shares.tolist(), labels.tolist(), strict=True)
        return [{"classes": [network.classes[i] for i in best], "probabilities": share} for share, best in answers]


def find_shards(sources: Sequence[str], size: int) -> list[Shard]:
    """Files, folders, patterns and tables, cut into shards of at most `size` clouds; in order."""
    check_least(size, "shard")
    files: list[str] = []
    tables: list[tuple[str, int]] = []
    for source in sources:
        fs, path = url_to_fs(source)
        found = sorted(fs.find(path) if fs.isdir(path) else fs.glob(path) if "*" in path else [path] if fs.exists(path) else [])
        known = [name for name in found if Path(name).suffix.lower() in (*SUFFIXES, *TABLES)]
        if not known:
            raise InputError(f"{source} is or holds no cloud; known file types are {' '.join((*SUFFIXES, *TABLES))}")
        for name in known:
            whole = fs.unstrip_protocol(name) if "://" in source else name
            if Path(name).suffix.lower() in TABLES:
                tables.append((whole, _count_rows(whole)))
            else:
                files.append(whole)
    parts: list[tuple[tuple[str, ...], range | None]] = [
        (tuple(files[start : start + size]), None) for start in range(0, len(files), size)
    ]
    for table, rows in tables:
        parts += [((table,), range(start, min(start + size, rows))) for start in range(0, rows, size)]
    return [Shard(number, *part) for number, part in enumerate(parts)]


def _part(shard: Shard) -> str:
    return f"part-{shard.number:07d}.parquet"


def _write(path: str, rows: list[dict[str, Any]], columns: dict[str, Any]) -> None:
    """Complete or not at all."""
    arrow, buffer = need("pyarrow"), io.BytesIO()
    fs, place = url_to_fs(path)
    schema = arrow.schema({"files": arrow.string(), **columns})
    need("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows, schema), buffer)
    partial_name = f"{place}.{os.getpid()}.partial"
    fs.pipe_file(partial_name, buffer.getvalue())
    fs.mv(partial_name, place)


def _read_file(file: str, points: int, seed: int) -> Tensor:
    fs, path = url_to_fs(file)
    if "://" not in file:
        return cloud_in_any_pose(file, points, seed)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / Path(path).name
        fs.get_file(path, str(local))
        try:
            return cloud_in_any_pose(local, points, seed)
        except InputError as error:
            raise InputError(str(error).replace(str(local), file)) from error


def _count_rows(table: str) -> int:
    fs, path = url_to_fs(table)
    try:
        with fs.open(path) as file:
            if path.endswith(".parquet"):
                return int(need("pyarrow.parquet").ParquetFile(file).metadata.num_rows)
            with need("h5py").File(file) as content:
                return len(content["data"])
    except (OSError, KeyError, ValueError):
        return 1  # the reason is found again, and written down, when it is read


def _read_rows(table: str, rows: range) -> list[np.ndarray]:
    """Column `points` of a Parquet file, lists of x, y, z or of triples; or `data` (n, N, 3) of an HDF5 file."""
    fs, path = url_to_fs(table)
    with fs.open(path) as file:
        if not path.endswith(".parquet"):
            with need("h5py").File(file) as content:
                return list(content["data"][rows.start : rows.stop])
        source, first, start = need("pyarrow.parquet").ParquetFile(file), 0, 0
        groups: list[int] = []
        for group in range(source.num_row_groups):
            count = source.metadata.row_group(group).num_rows
            if start < rows.stop and start + count > rows.start:
                first = first if groups else start
                groups.append(group)
            start += count
        column = source.read_row_groups(groups, columns=["points"])["points"].slice(rows.start - first, len(rows))
        return [np.array(row.as_py() or [], dtype=np.float64) for row in column]


def _read_row(row: np.ndarray, points: int, seed: int, name: str) -> Tensor:
    if row.size == 0 or row.size % 3 or (row.ndim == 2 and row.shape[1] != 3) or not np.isfinite(row).all():
        raise InputError(f"{name} has shape {row.shape}; finite coordinates x, y, z are needed")
    return cloud_of_vertices(row.reshape(-1, 3), points, seed, name)
