"""`python -m experiments export`: networks as files, with their proofs, in one table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from reqnn.commands.base import OK, Command, console, optional

if TYPE_CHECKING:
    from experiments.harness.table import Table
    from reqnn.revision.module import RevisedModel

SMALL: dict[str, dict[str, Any]] = {
    "dgcnn": {"k": 8},
    "kd_network": {"depth": 5},
    "point2sequence": {"npoint": 24, "nsample": (4, 8, 12, 16)},
    "pointconv": {"npoint": (32, 16), "nsample": (8, 8)},
    "pointnet": {},
    "pointnet2": {"npoint": (32, 16), "nsample": (8, 8), "radius": (0.4, 0.8)},
    "pointnet2_msg": {"npoint": (32, 16), "nsample": ((4, 8, 8), (4, 8, 8)), "radius": ((0.2, 0.4, 0.6), (0.4, 0.6, 0.8))},
    "pointnet_stn": {},
    "prin": {},
    "qe_capsule": {},
    "rscnn": {"npoint": (32, 16), "nsample": (8, 8), "radius": (0.4, 0.8)},
}
"""Every classifier of the zoo, with sizes that keep its export short."""
Record = dict[str, Any]


WEIGHTS = ("dgcnn.full.modelnet40",)
"""Trained weights in the table, which are timed, too."""


@dataclass(kw_only=True)
class ExportFiles(Command):
    """Export trained weights and networks of the zoo, and tabulate size, parity, invariance and time.

    A network of the zoo has fresh weights, the statistics of 16 clouds, few channels and few points, and is exported in
    float64, where no tie is decided by rounding; in float32 if ONNX Runtime lacks an operator in float64. Trained weights are
    exported in float32, as they are. Rows that are in the results with the same settings are kept: the same command continues
    an interrupted one. Each file is also run where reqnn cannot be imported. Trained weights are timed under torch.compile
    too, which needs a C++ compiler.

    Examples:
        python -m experiments export
        python -m experiments export --networks dgcnn.full.modelnet40 pointnet-full --formats onnx --again
    """

    networks: tuple[str, ...] = ()
    """Names of weights, or MODEL-RULES. Default: dgcnn.full.modelnet40, and all classifiers by paper and full."""
    formats: tuple[str, ...] = ("pt2", "onnx")
    """pt2, onnx."""
    points: int = 64
    """Points in a cloud of the example, for networks of the zoo; weights have those of their training."""
    width: float = 0.125
    """Of networks of the zoo."""
    again: bool = False
    """Measure rows again that are in the results."""
    files: Path = Path("runs/exported")
    """The folder for the exported files."""
    torch_alone: Annotated[str | None, optional("PYTHON")] = None
    """An interpreter with torch and numpy, to run pt2 files. Default: this one, which is kept from importing reqnn."""
    onnxruntime_alone: Annotated[str | None, optional("PYTHON")] = None
    """An interpreter with onnxruntime, to run ONNX files. Default: this one, kept from importing reqnn and torch."""
    out: Path = Path("results/export.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Export what has no row yet, writing the results after each file; then time the weights."""
        chosen = self.networks or (*WEIGHTS, *(f"{model}-{rules}" for model in SMALL for rules in ("paper", "full")))
        self.files.mkdir(parents=True, exist_ok=True)
        kept = json.loads(self.out.read_text(encoding="utf-8"))["rows"] if self.out.exists() else []
        records: dict[tuple[str, str], Record] = {(row["network"], row["format"]): row for row in kept}
        for name in chosen:
            with traced_once():
                for format in self.formats:
                    settings, there = self.settings(name), records.get((name, format))
                    if self.again or there is None or not settings.items() <= there.items():
                        records[name, format] = {"network": name, "format": format, **settings, **self.measure(name, format)}
                        print(f"{name} {format}: {records[name, format].get('failed', 'ok')}", flush=True)
                        table(list(records.values())).write(self.out.parent)
            rows = [row for row in records.values() if row["network"] == name and "failed" not in row]
            if name in WEIGHTS and not all("milliseconds_per_cloud" in row for row in rows):
                found = times(name, {row["format"]: self.path(name, row["format"]) for row in rows})
                for row in rows:
                    row["milliseconds_per_cloud"] = found
                table(list(records.values())).write(self.out.parent)
        table([row for row in records.values() if row["network"] in chosen]).print(console())
        return OK

    def settings(self, name: str) -> Record:
        """What the row of a network depends on."""
        return {} if name in WEIGHTS else {"points": self.points, "width": self.width}

    def path(self, name: str, format: str) -> Path:
        """Of the file."""
        return self.files / f"{name}.{format}"

    def measure(self, name: str, format: str) -> Record:
        """Export; the proof, or why there is none."""
        import torch

        import reqnn
        from reqnn.errors import ReqnnError

        path, refused = self.path(name, format), []
        try:
            net = build(name, self.points, self.width)
        except ReqnnError as error:
            return {"failed": reason(error)}
        points = getattr(net, "card", {"points": self.points})["points"]
        example = reqnn.data.surfaces(2, points)[0]
        for dtype in (torch.float32, torch.float64)[:: 1 if name in WEIGHTS else -1]:
            precision = str(dtype).removeprefix("torch.")
            try:
                about = reqnn.export(net := net.to(dtype), example, path)
            except ReqnnError as error:
                refused.append(f"{precision}: {reason(error).replace(f'{path} is not written: ', '')}")
                continue
            record: Record = {"points": points, "precision": precision, "refused": refused, "bytes": path.stat().st_size}
            record |= {"proof": about["proof"], "alone": self.run_alone(path, net, far_clouds(8, points, dtype))}
            return record
        return {"failed": "; ".join(refused)}

    def run_alone(self, path: Path, net: RevisedModel, given: Any) -> Record:
        """Run the file without reqnn; the largest difference from the network's answers, relative to their spread."""
        import numpy as np
        import torch

        own = self.torch_alone if path.suffix == ".pt2" else self.onnxruntime_alone
        blocked = "reqnn" if path.suffix == ".pt2" else "reqnn,torch"
        with TemporaryDirectory() as folder:
            clouds, out = Path(folder, "points.npy"), Path(folder, "out.npy")
            np.save(clouds, given.numpy())
            words = [str(path.resolve()), str(clouds), str(out), *([] if own else [blocked])]
            script = Path(__file__).with_name("export_alone.py").resolve()
            command = [own or sys.executable, "-I", str(script), *words]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                return {"failed": done.stderr.strip().splitlines()[-1]}
            found, expected = torch.from_numpy(np.load(out)), net.predict(given)
        expected = expected.softmax(-1) if json.loads(done.stdout)["classes"] else expected
        apart = (expected - expected.roll(1, 0)).square().mean().sqrt()
        return {"environment": "its own" if own else "blocked", "difference": float((found - expected).abs().max() / apart)}


def reason(error: Exception) -> str:
    """Why a network is refused, without the ways out, in one line."""
    return " ".join(str(error).partition("\n  ways out")[0].replace(f"{Path(__file__).parents[1]}/", "").split())


def far_clouds(count: int, points: int, dtype: Any) -> Any:
    """Clouds of a fifth more points than the example, in another place and unit."""
    import torch

    import reqnn

    return 3 * reqnn.data.surfaces(count, points + points // 5, seed=3, dtype=dtype)[0] + torch.tensor([5, 0, -2], dtype=dtype)


@contextmanager
def traced_once() -> Iterator[None]:
    """Inside this context the one network that is exported is traced once per precision, for all formats."""
    from reqnn.deploy import exporter

    programs: Record = {}

    def remembered(network: Any, args: Any, varying: Any) -> Any:
        if args[0].dtype not in programs:
            programs[args[0].dtype] = trace(network, args, varying)
        return programs[args[0].dtype]

    trace, exporter._program = exporter._program, remembered
    try:
        yield
    finally:
        exporter._program = trace


@lru_cache(1)
def build(name: str, points: int, width: float) -> RevisedModel:
    """Trained weights, or a network of the zoo with the statistics of some clouds."""
    import torch

    import reqnn
    from experiments.styles import calibrate

    if name in reqnn.list_weights():
        return reqnn.load(name)
    model, _, rules = name.rpartition("-")
    torch.manual_seed(0)
    net: Any = reqnn.create_model(model, equivariant=True, rules=rules, width=width, **SMALL[model])
    with torch.no_grad():
        calibrate(net, reqnn.data.surfaces(16, points, seed=1, dtype=torch.float32)[0])
    return net.eval()


def times(name: str, files: dict[str, Path]) -> dict[str, float]:
    """CPU milliseconds per cloud, medians of passes of 8 clouds in turn: the network, it under torch.compile, and its files."""
    import torch

    import reqnn
    from reqnn.deploy.exporter import FORMATS, Deployed

    net = reqnn.load(name)
    given, eager = far_clouds(8, net.card["points"], torch.float32), Deployed(net, True, True)
    loaded = {format: FORMATS[format].load(path) for format, path in files.items()}
    compiled = torch.compile(eager, dynamic=False)
    runs: dict[str, Callable[[], Any]] = {"eager": lambda: eager(given), "torch.compile": lambda: compiled(given)}
    runs |= {format: partial(run, (given,)) for format, run in loaded.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with torch.no_grad():
        for _ in range(9):
            for name, run in runs.items():
                start = time.process_time()
                run()
                seconds[name].append((time.process_time() - start) / len(given))
    return {name: 1000 * median(found[2:]) for name, found in seconds.items()}


def table(records: list[Record]) -> Table:
    """One row per file."""
    from experiments.harness.table import Cell, Table

    columns = ["network", "format", "MB", "parity (network)", "invariance", "changed, ties", "in float64: file (network)"]
    columns += ["without reqnn", "ms per cloud"]
    rows: list[list[Cell]] = []
    refused: dict[str, list[str]] = {}
    for record in sorted(records, key=lambda record: (record["network"] not in WEIGHTS, record["network"], record["format"])):
        size = f", {record['points']} points" if "points" in record else ""
        size += f", width {record['width']}" if "width" in record else ""
        head = [record["network"] + size, f"{record['format']} {record.get('precision', '')}".strip()]
        for why in (*record.get("refused", ()), *filter(None, [record.get("failed")])):
            refused.setdefault(why, []).append(f"{record['network']} {record['format']}")
        if "failed" in record:
            rows.append([Cell(text) for text in (*head, "refused, see below", *[""] * (len(columns) - 3))])
            continue
        proof = record["proof"]
        file, network = proof["exact"]["file"], proof["exact"]["network"]
        ms = proof["milliseconds_per_cloud"]
        texts = [*head, f"{record['bytes'] / 1e6:.1f}", f"{proof['parity']:.0e} ({proof['rounding']:.0e})"]
        texts += [f"{proof['invariance']:.0e}", f"{proof['changed']}, {proof['ties']} of {proof['clouds'] * proof['copies']}"]
        texts += [f"{'–' if file is None else f'{file:.0e}'} ({network:.0e})"]
        texts += [record["alone"].get("failed") or f"{record['alone']['difference']:.0e}"]
        rows.append([Cell(text) for text in (*texts, f"{ms['file']:.1f} ({ms['network']:.1f})")])
    notes = [
        "Differences are relative to the rms difference between two clouds. Parity: the largest between file and network "
        "on the same clouds and copies (in parentheses: the network in that precision against float64). Invariance: "
        "file on copies (rotated, reordered, moved, scaled) against file on the clouds, what 95 % do not exceed. Changed: "
        "copies above the tolerance, 1e-3 in float32 and 1e-6 in float64, decided by rounding. Ties: clouds and copies that "
        "the file answers as the network does for a cloud within rounding.",
        "In float64: the largest difference of the graph of a float32 file written once more in float64, parity and invariance "
        "(in parentheses: of the network on copies); – for files in float64, or if ONNX Runtime lacks an operator in float64.",
        "Networks named MODEL-RULES have fresh weights and calibrated statistics. Batch and points are dynamic in all files.",
        "Without reqnn: the file on 8 clouds in another process, which has torch but not reqnn (pt2), or onnxruntime but "
        "neither (ONNX), against `net.predict`.",
        "ms: median CPU time of the file (of the network, which runs its own compiled loops) in the proof, in passes of 1 and "
        "8 clouds, one thread.",
    ]
    for record in {row["network"]: row for row in records if "milliseconds_per_cloud" in row}.values():
        listed = ", ".join(f"{name} {value:.1f}" for name, value in record["milliseconds_per_cloud"].items())
        what = f"{record['network']}, CPU ms per cloud, passes of 8 clouds of {record['points'] * 6 // 5} points in turn"
        notes.append(
            f"{what}: {listed}. torch.compile compiles the network; it does not take a pt2 file (inductor refuses its loop)."
        )
    notes += [f"Refused: {', '.join(names)}: `{why}`" for why, names in refused.items()]
    return Table("export", "Exported files", columns, rows, records, notes=notes)
