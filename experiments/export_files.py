"""`python -m experiments export`: networks as files, with their proofs, in one table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(kw_only=True)
class ExportFiles(Command):
    """Export trained weights and networks of the zoo, and tabulate size, parity, invariance and time.

    A network of the zoo has fresh weights, the statistics of 16 clouds, few channels and few points. Rows that are in the
    results are kept: the same command continues an interrupted one. Each file is also run where reqnn cannot be imported.
    Trained weights are timed under torch.compile too, which needs a C++ compiler.

    Examples:
        python -m experiments export
        python -m experiments export --networks dgcnn.full.modelnet40 pointnet-full --formats onnx --again
    """

    networks: tuple[str, ...] = ()
    """Names of weights, or MODEL-RULES. Default: all classifiers by paper and full, then all weights that ship."""
    formats: tuple[str, ...] = ("pt2", "onnx")
    """pt2, onnx."""
    points: int = 64
    """Points in a cloud of the example, for networks of the zoo; weights have those of their training."""
    width: float = 0.125
    """Of networks of the zoo."""
    again: bool = False
    """Measure rows again that are in the results."""
    torch_alone: Annotated[str | None, optional("PYTHON")] = None
    """An interpreter with torch and numpy, to run pt2 files. Default: this one, which is kept from importing reqnn."""
    onnxruntime_alone: Annotated[str | None, optional("PYTHON")] = None
    """An interpreter with onnxruntime, to run ONNX files. Default: this one, kept from importing reqnn and torch."""
    out: Path = Path("results/export.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Export what has no row yet, writing the results after each file."""
        from reqnn.train.run import list_weights

        shipped = [name for name in list_weights() if ".ordinary." not in name]
        chosen = self.networks or (*(f"{model}-{rules}" for model in SMALL for rules in ("paper", "full")), *shipped)
        kept = json.loads(self.out.read_text(encoding="utf-8"))["rows"] if self.out.exists() else []
        records = {(row["network"], row["format"]): row for row in kept if "alone" in row or "failed" in row}
        for name in chosen:
            for format in self.formats:
                if self.again or (name, format) not in records:
                    records[name, format] = self.measure(name, format)
                    print(f"{name} {format}: {records[name, format].get('failed', 'ok')}", flush=True)
                    table(list(records.values())).write(self.out.parent)
        table([row for row in records.values() if row["network"] in chosen]).print(console())
        return OK

    def measure(self, name: str, format: str) -> Record:
        """Export to a temporary folder; the proof, or why there is none."""
        import torch

        import reqnn
        from reqnn.deploy.proof import Proof
        from reqnn.errors import ReqnnError

        try:
            net = build(name, self.points, self.width)
        except ReqnnError as error:
            return {"network": name, "format": format, "failed": str(error), "proof": None}
        points = getattr(net, "card", {"points": self.points})["points"]
        record: Record = {"network": name, "format": format, "points": points}
        record |= {} if name in reqnn.list_weights() else {"width": self.width}
        example = reqnn.data.surfaces(2, points)[0]
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"net.{format}"
            try:
                try:
                    about = reqnn.export(net, example, path)
                except reqnn.ExportError as error:
                    if not isinstance(error.proof, Proof) or error.proof.rounding <= error.proof.tolerance:
                        raise
                    record["float32"] = error.proof.to_dict()  # its answers in float32 are rounding
                    about = reqnn.export(net := net.double(), example, path)
            except ReqnnError as error:
                return {**record, "failed": str(error).replace(f"{path} is not written: ", ""), "proof": None}
            dtype = next(net.parameters()).dtype
            given = 3 * reqnn.data.surfaces(8, points + points // 5, seed=3, dtype=dtype)[0] + torch.tensor([5, 0, -2]).to(
                dtype
            )
            record |= {"bytes": path.stat().st_size, "proof": about["proof"], "alone": self.run_alone(path, net, given)}
            if name in reqnn.list_weights():
                record["milliseconds_per_cloud"] = times(net, path, given)
        return record

    def run_alone(self, path: Path, net: RevisedModel, given: Any) -> Record:
        """Run the file without reqnn; the largest difference from the network's answers, relative to their spread."""
        import numpy as np
        import torch

        own = self.torch_alone if path.suffix == ".pt2" else self.onnxruntime_alone
        blocked = "reqnn" if path.suffix == ".pt2" else "reqnn,torch"
        np.save(path.with_name("points.npy"), given.numpy())
        words = [str(path), str(path.with_name("points.npy")), str(path.with_name("out.npy")), *([] if own else [blocked])]
        script = Path(__file__).with_name("export_alone.py").resolve()
        command = [own or sys.executable, "-I", str(script), *words]
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1]}
        found, expected = torch.from_numpy(np.load(path.with_name("out.npy"))), net.predict(given)
        expected = expected.softmax(-1) if json.loads(done.stdout)["classes"] else expected
        apart = (expected - expected.roll(1, 0)).square().mean().sqrt()
        return {"environment": "its own" if own else "blocked", "difference": float((found - expected).abs().max() / apart)}


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


def times(net: RevisedModel, path: Path, given: Any) -> dict[str, float]:
    """CPU milliseconds per cloud, medians of passes in turn: the network, the same under torch.compile, and the file."""
    import torch

    from reqnn.deploy.exporter import FORMATS, Deployed

    eager = Deployed(net.eval(), True, True)
    runs: dict[str, Callable[[], Any]] = {"eager": lambda: eager(given), "file": lambda: file((given,))}
    torch.compiler.reset()
    file, compiled = FORMATS[path.suffix[1:]].load(path), torch.compile(eager, dynamic=False)
    runs["compiled"] = lambda: compiled(given)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with torch.no_grad():
        for _ in range(12):
            for name, run in runs.items():
                start = time.process_time()
                run()
                seconds[name].append((time.process_time() - start) / len(given))
    return {name: 1000 * median(found[2:]) for name, found in seconds.items()}


def table(records: list[Record]) -> Table:
    """One row per file."""
    from experiments.harness.table import Cell, Table

    columns = ["network", "format", "MB", "parity (network)", "invariance", "changed, ties", "float64 file (network)"]
    columns += ["without reqnn", "ms per cloud"]
    rows, refused = [], []
    for record in sorted(records, key=lambda record: (record["network"], record["format"])):
        size = f", {record['points']} points" if "points" in record else ""
        size += f", width {record['width']}" if "width" in record else ""
        head = [record["network"] + size, record["format"] + (" float64" if "float32" in record else "")]
        proof = record["proof"]
        if "failed" in record:
            refused.append(f"{head[0]}, {head[1]}: {' '.join(record['failed'].split())}")
            texts = [*head, "refused, see below", *[""] * (len(columns) - 3)]
        else:
            parity, times = f"{proof['parity']:.0e} ({proof['rounding']:.0e})", proof["milliseconds_per_cloud"]
            counts = f"{proof['changed']}, {proof['ties']} of {proof['clouds'] * proof['copies']}"
            file, network = proof["exact"]["file"], proof["exact"]["network"]
            exact = f"{'–' if file is None else f'{file:.0e}'} ({network:.0e})"
            alone = record["alone"].get("failed") or f"{record['alone']['difference']:.0e}"
            times = record.get("milliseconds_per_cloud", {"eager": times["network"], "file": times["file"]})
            ms = ", ".join(f"{name} {value:.1f}" for name, value in times.items())
            texts = [*head, f"{record['bytes'] / 1e6:.1f}", parity, f"{proof['invariance']:.0e}", counts, exact, alone, ms]
        rows.append([Cell(text) for text in texts])
    notes = [
        "Differences are relative to the rms difference between two clouds. Parity: the largest between file and network "
        "on the same clouds and copies (in parentheses: network, float32 against 64). Invariance: file on copies (rotated, "
        "reordered, moved, scaled) against file on the clouds, what 95 % do not exceed. Changed: copies above 1e-3, decided "
        "by rounding. Ties: clouds and copies that the file answers as the network does for a cloud within rounding.",
        "Float64: the largest difference of the file written in float64, parity and invariance (in parentheses: of the network "
        "on copies); – if ONNX Runtime lacks an operator in float64.",
        "Networks named MODEL-RULES have fresh weights and calibrated statistics. Batch and points are dynamic. Exported in "
        "float64: those whose answers in float32 differ by more than 1e-3 from those in float64, in the network itself.",
        "Without reqnn: the file on 8 clouds in another process, which has torch but not reqnn (pt2), or onnxruntime but "
        "neither (ONNX), against `net.predict`.",
        "ms: median CPU time, one thread. Eager: the network in torch, which runs its own compiled loops. Networks of the zoo "
        "in passes of 1 and 8 clouds as the proof makes them; trained weights in passes of 8, in turn, and under torch.compile "
        "(of the network; what pt2 holds, a loop operator among it, inductor does not take).",
    ]
    notes += [f"Refused: {reason}" for reason in refused]
    return Table("export", "Exported files", columns, rows, records, notes=notes)
