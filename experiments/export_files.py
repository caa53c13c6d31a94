"""`python -m experiments export`: networks as files, with their proofs, in one table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import OK, Command, console

if TYPE_CHECKING:
    from experiments.harness.table import Table
    from reqnn.revision.module import RevisedModel

CLASSIFIERS = ("dgcnn", "hierarchical_edgeconv", "pointconv", "pointnet", "pointnet2", "pointnet2_msg", "pointnet_stn")
Record = dict[str, Any]


@dataclass(kw_only=True)
class ExportFiles(Command):
    """Export trained weights and networks of the zoo, and tabulate size, parity, invariance and time.

    A network of the zoo has fresh weights and the statistics of 16 clouds. Rows that are in the results already, of other
    networks, are kept. Times are CPU time of this process, network and file in turn on the same clouds.

    Examples:
        python -m experiments export
        python -m experiments export --networks dgcnn.full.modelnet40 pointnet-full --formats onnx
    """

    networks: tuple[str, ...] = ()
    """Names of weights, or MODEL-RULES. Default: all weights that ship, all classifiers by paper and full."""
    formats: tuple[str, ...] = ("pt2", "onnx")
    """pt2, onnx."""
    points: int = 512
    """Points in a cloud of the example."""
    width: float = 0.25
    """Of networks of the zoo."""
    out: Path = Path("results/export.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Export everything, writing the results after each file."""
        from reqnn.train.run import list_weights

        shipped = [name for name in list_weights() if ".ordinary." not in name]
        chosen = self.networks or (*shipped, *(f"{m}-{r}" for m in CLASSIFIERS for r in ("paper", "full")))
        kept = json.loads(self.out.read_text(encoding="utf-8"))["rows"] if self.out.exists() else []
        records = {(row["network"], row["format"]): row for row in kept}
        for name in chosen:
            for format in self.formats:
                records[name, format] = measure(name, format, self.points, self.width)
                print(f"{name} {format}: {records[name, format].get('failed', 'ok')}", flush=True)
                table(list(records.values())).write(self.out.parent)
        table([row for row in records.values() if row["network"] in chosen]).print(console())
        return OK


def build(name: str, points: int, width: float) -> RevisedModel:
    """Trained weights, or a network of the zoo with the statistics of some clouds."""
    import torch

    import reqnn
    from experiments.styles import calibrate

    if name in reqnn.list_weights():
        return reqnn.load(name)
    model, _, rules = name.rpartition("-")
    torch.manual_seed(0)
    net: Any = reqnn.create_model(model, equivariant=True, rules=rules, width=width)
    with torch.no_grad():
        calibrate(net, reqnn.data.surfaces(16, points, seed=1, dtype=torch.float32)[0])
    return net.eval()


def measure(name: str, format: str, points: int, width: float) -> Record:
    """Export to a temporary folder; the proof, or why there is none."""
    import reqnn
    from reqnn.deploy.proof import Proof

    example = reqnn.data.surfaces(2, points)[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"net.{format}"
        record: Record = {"network": name, "format": format, "width": width, "points": points}
        try:
            about = reqnn.export(net := build(name, points, width), example, path)
        except reqnn.ExportError as error:
            if not isinstance(error.proof, Proof) or error.proof.rounding <= error.proof.tolerance:
                return {**record, "failed": str(error).replace(f"{path} is not written: ", ""), "proof": None}
            try:  # its answers in float32 are rounding
                record["float32"] = error.proof.to_dict()
                about = reqnn.export(net.double(), example, path)
            except reqnn.ExportError as again:
                failed = f"float32 by rounding ({error.proof.rounding:.0e}); float64: {again}".replace(
                    f"{path} is not written: ", ""
                )
                return {**record, "failed": failed, "proof": None}
        return {**record, "bytes": path.stat().st_size, "proof": about["proof"]}


def table(records: list[Record]) -> Table:
    """One row per file."""
    from experiments.harness.table import Cell, Table

    columns = [
        "network",
        "format",
        "MB",
        "parity (network)",
        "invariance",
        "changed, ties",
        "float64 file (network)",
        "ms (network)",
    ]
    rows = []
    for record in sorted(records, key=lambda record: (record["network"], record["format"])):
        trained = "." in record["network"]
        size = f", {record['points']} points" + ("" if trained else f", width {record['width']}")
        proof, head = (
            record["proof"],
            [record["network"] + size, record["format"] + (" float64" if "float32" in record else "")],
        )
        if "failed" in record:
            texts = [*head, f"not exported: {record['failed']}", *[""] * 5]
        else:
            parity, times = f"{proof['parity']:.0e} ({proof['rounding']:.0e})", proof["milliseconds_per_cloud"]
            counts = f"{proof['changed']}, {proof['ties']} of {proof['clouds'] * proof['copies']}"
            file, network = proof["exact"]["file"], proof["exact"]["network"]
            exact = f"{'–' if file is None else f'{file:.0e}'} ({network:.0e})"
            ms = f"{times['file']:.0f} ({times['network']:.0f})"
            texts = [*head, f"{record['bytes'] / 1e6:.1f}", parity, f"{proof['invariance']:.0e}", counts, exact, ms]
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
        "ms: median CPU time per cloud in passes of 1 and 8 clouds, one thread; the network runs its compiled loops.",
    ]
    return Table("export", "Exported files", columns, rows, records, notes=notes)
