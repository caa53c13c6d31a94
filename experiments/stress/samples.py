"""A small valid file for every loader, and how it is loaded."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from reqnn.data import PointClouds, RotatedTestSet, load, rotated_test_set
from reqnn.data.shape_file import read_shape
from reqnn.extras import need
from reqnn.train.checkpoint import STATE, Progress, load_state, save_state
from reqnn.train.config import TrainConfig, load_config
from reqnn.train.processes import locked
from reqnn.train.run import build_network, load_run, save_weights
from reqnn.train.weights import checksum, model_tensors


@dataclass(frozen=True)
class Sample:
    """A file to damage: its name, its content, and a function that loads it and returns what was read.

    `guarded`: a checksum covers the file, so that what is loaded from a damaged one must be what was stored.
    """

    name: str
    content: bytes
    load: Callable[[Path], Any]
    guarded: bool = False


def _cloud(points: int = 40) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(points, 3))


def _clouds() -> PointClouds:
    points = torch.from_numpy(np.random.default_rng(1).normal(size=(4, 16, 3)).astype(np.float32))
    return PointClouds(points, torch.zeros(4, dtype=torch.int64), ("some",), "some", "test")


def _shape_samples() -> dict[str, Sample]:
    """Meshes and clouds."""
    trimesh, xyz = need("trimesh"), _cloud()
    box = trimesh.creation.box(extents=(1, 2, 3))
    found: dict[str, bytes] = {}
    for kind, options in {
        "off": {}, "obj": {}, "glb": {}, "stl": {}, "ply": {"encoding": "ascii"}, "binary.ply": {"encoding": "binary"},
    }.items():  # fmt: skip
        written = box.export(file_type=kind.rpartition(".")[2], **options)
        found[kind] = written.encode() if isinstance(written, str) else written
    found["text.stl"] = trimesh.exchange.stl.export_stl_ascii(box).encode()
    for kind, separator in {"xyz": " ", "csv": ",", "pts": " "}.items():
        table = io.StringIO()
        np.savetxt(table, xyz, delimiter=separator)
        found[kind] = table.getvalue().encode()
    for kind, write in {"npy": np.save, "npz": np.savez}.items():
        array = io.BytesIO()
        write(array, xyz)
        found[kind] = array.getvalue()
    rows = [f"{i};{x:.3f};{y:.3f};{z:.3f}\n".replace(".", ",") for i, (x, y, z) in enumerate(xyz)]
    found["header.csv"] = "".join(["id;x;y;z\n", *rows]).encode()
    found["count.pts"] = f"{len(xyz)}\n".encode() + found["pts"]
    found |= {f"{storage}.pcd": pcd(xyz, storage) for storage in ("ascii", "binary", "binary_compressed")}
    if find_spec("laspy") is not None:
        found |= {kind: _las(xyz, kind) for kind in ("las", "laz")}
    return {kind: Sample(f"some.{kind}", content, read_shape) for kind, content in found.items()}


def pcd(xyz: np.ndarray, storage: str) -> bytes:
    """Points (N, 3) and an intensity as a PCD file; compressed data consists of literals and a few copies."""
    rows = np.concatenate([xyz, np.zeros((len(xyz), 1))], 1).astype("<f4")
    head = "# .PCD v0.7\nVERSION 0.7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n"
    head += f"WIDTH {len(xyz)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(xyz)}\nDATA {storage}\n"
    if storage == "ascii":
        body = "".join(" ".join(map(str, row)) + "\n" for row in rows.tolist()).encode()
    elif storage == "binary":
        body = rows.tobytes()
    else:
        plain, packed = rows[:, :3].T.tobytes(), bytearray()
        for start in range(0, len(plain), 32):
            piece = plain[start : start + 32]
            packed += bytes([len(piece) - 1]) + piece
        left = 4 * len(xyz)  # zeros: one byte, then copies of it
        packed += b"\0\0"
        left -= 1
        while left >= 3:
            length = min(left, 264)
            packed += bytes([(length - 2) << 5, 0]) if length < 9 else bytes([7 << 5, length - 9, 0])
            left -= length
        packed += bytes([left - 1]) + bytes(left) if left else b""
        body = np.array([len(packed), rows.nbytes], "<u4").tobytes() + bytes(packed)
    return head.encode() + body


def _las(xyz: np.ndarray, kind: str) -> bytes:
    laspy, file = need("laspy"), io.BytesIO()
    header = laspy.LasHeader(point_format=3, version="1.2")
    header.scales = np.full(3, 0.001)
    scan = laspy.LasData(header)
    scan.x, scan.y, scan.z = xyz.T
    scan.write(file, do_compress=kind == "laz")
    return file.getvalue()


def _hdf5(**fields: Any) -> bytes:
    file = io.BytesIO()
    with need("h5py").File(file, "w") as opened:
        for name, value in fields.items():
            compressed = {"compression": "gzip"} if name == "data" else {}
            opened.create_dataset(name, data=value, **compressed)
    return file.getvalue()


def _data_samples() -> dict[str, Sample]:
    """Data sets."""
    points, labels = _clouds().points.numpy(), np.zeros((4, 1), dtype=np.uint8)
    kaggle = io.BytesIO()
    with need("h5py").File(kaggle, "w") as opened:
        for i, cloud in enumerate(points):
            opened.create_group(str(i)).create_dataset("points", data=cloud)
            opened[str(i)].attrs["label"] = i
    test_set = io.BytesIO(_written(lambda path: rotated_test_set(_clouds(), copies=2).save(path)))

    def all_clouds(path: Path) -> PointClouds:
        return load(path, "all", points=8, cache=path.parent / "cache")

    def scans(path: Path) -> PointClouds:
        return load(path.parent, "test", points=8)

    def shapenet(path: Path) -> PointClouds:
        folder = path.parents[1]
        (folder / "1").mkdir(exist_ok=True)
        (folder / "synsetoffset2category.txt").write_text("Chair 1\n")
        for name in "ab":
            np.savetxt(folder / "1" / f"{name}.txt", _cloud())
        return load(folder, "train", points=8, cache=folder / "cache")

    names = json.dumps(["shape_data/1/a", "shape_data/1/b"]).encode()
    return {
        "pointnet.h5": Sample("some.h5", _hdf5(data=points, label=labels), all_clouds),
        "kaggle.h5": Sample("digits.h5", kaggle.getvalue(), all_clouds),
        "scans.h5": Sample("test_objectdataset.h5", _hdf5(data=points, label=labels), scans),
        "shapenet.json": Sample("train_test_split/shuffled_train_file_list.json", names, shapenet),
        "rotated test set": Sample("set.safetensors", test_set.getvalue(), lambda path: RotatedTestSet.load(path, _clouds())),
    }


def _written(write: Callable[[Path], Any]) -> bytes:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.safetensors"
        write(path)
        return path.read_bytes()


def _network() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def _run_samples() -> dict[str, Sample]:
    """What a training writes."""
    config = TrainConfig(model="pointnet", options={"width": 0.0625}, points=16)
    network, names = build_network(config, 3), ("chair", "sofa", "table")
    weights = _written(lambda path: save_weights(path, network, config, names, {"epoch": 1}))
    stored = model_tensors(network)
    old = weights.replace(checksum(stored, _record(weights)).encode(), checksum(stored).encode())

    def tensors(path: Path) -> Any:
        run = load_run(path)
        return checksum(model_tensors(run.model)), run.config.to_dict(), run.classes, run.row

    def beside(path: Path) -> Any:
        (path.parent / "best.safetensors").write_bytes(weights)
        return load_run(path.parent).metrics

    def card(path: Path) -> Any:
        from reqnn.pretrained import load as load_network

        path.with_suffix(".safetensors").write_bytes(weights)
        return load_network(path.with_suffix(".safetensors")).card

    def resumed(path: Path) -> Any:
        """The damaged state, or the one before it."""
        before = path.with_name("state.previous.safetensors")
        if not before.exists():
            save_state(path.parent, Progress(step=7), *_network())
            (path.parent / STATE).replace(before)
        return load_state(path.parent, *_network())

    def write_state(path: Path) -> None:
        save_state(path.parent, Progress(step=7), *_network())
        (path.parent / STATE).rename(path)

    state = _written(write_state)
    metrics = json.dumps({"task": "classification", "best": {"epoch": 3}, "finished": True}).encode()
    facts = json.dumps({"points": 16, "classes": list(names), "config": config.to_dict()}).encode()
    return {
        "weights": Sample("some.safetensors", weights, tensors, guarded=True),
        "weights with the earlier checksum": Sample("old.safetensors", old, tensors),
        "checkpoint": Sample(STATE, state, resumed, guarded=True),
        "metrics.json": Sample("metrics.json", metrics, beside),
        "model card": Sample("some.json", facts, card),
        "config.json": Sample("config.json", json.dumps(asdict(config)).encode(), load_config),
        "lock": Sample("run.holder", b"somewhere, process 12", _lock),
    }


def _record(content: bytes) -> str:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return str(header["__metadata__"]["reqnn"])


def _lock(path: Path) -> Any:
    """The holder that a second process is shown."""
    lock = path.with_suffix(".lock")
    content = path.read_bytes()
    with locked(lock):
        path.write_bytes(content)
        with locked(lock) as holder:
            return holder


def samples() -> dict[str, Sample]:
    """Loader → a file for it."""
    return {**_shape_samples(), **_data_samples(), **_run_samples()}
