"""`reqnn demo`: the whole idea in a minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import NOT_OK, OK, Command, busy, console

if TYPE_CHECKING:
    from torch import Tensor, nn

    from reqnn.auditing import AuditReport
    from reqnn.paper.table import Table

POINTS, PICTURED = 128, 512
ROTATIONS, PERMUTATIONS = 4, 4
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "DGCNN": ("dgcnn", {"width": 0.125, "k": 10}),
    "PointNet++": (
        "pointnet2",
        {"width": 0.25, "npoint": (48, 16), "radius": (0.4, 0.8), "nsample": (12, 12)},
    ),
}
"""Small versions, so that the demo takes a minute: title → name and options. Balls of 12 points overflow on these clouds."""


@dataclass(kw_only=True)
class Demo(Command):
    """Revise two small networks, audit them before and after, and draw what happens; no download, no GPU, about a minute.

    Examples:
        reqnn demo --out demo
    """

    out: str = "demo"
    """The folder for the table and the two pictures."""

    def run(self) -> int:
        """Measure, print one table, write it and the pictures."""
        import torch

        from reqnn.commands.pictures import draw_errors, draw_features
        from reqnn.data import digits
        from reqnn.models import create_model
        from reqnn.rules import get_rules

        screen, folder = console(), Path(self.out)
        clouds, labels = digits("test", POINTS, limit=4)
        names = ", ".join(map(str, labels.tolist()))
        screen.print(f"Clouds: handwritten digits {names}, {POINTS} points each.", highlight=False)
        torch.manual_seed(0)
        torch.set_num_threads(1)  # tensors this small cost more to share out than to compute
        every_layer = get_rules("paper").with_options(fused=False)  # each layer is audited and counted by itself
        reports: dict[str, dict[str, AuditReport]] = {}
        records: list[dict[str, Any]] = []
        networks: dict[str, nn.Module] = {}
        for title, (name, options) in NETWORKS.items():
            reports[title] = {}
            for kind in ("original", "REQNN"):
                with busy(f"{title}, {kind}: auditing every layer"):
                    equivariant = kind == "REQNN"
                    net = create_model(name, equivariant, num_classes=10, points=clouds, rules=every_layer, **options)
                    report, record = _measure(net, clouds)
                reports[title][kind], networks[f"{title} {kind}"] = report, net
                records.append({"network": title, "kind": kind, **record})
        table = _table(records)
        table.print(screen)
        with busy("drawing"):
            paths = table.write(folder)
            paths.append(draw_errors(reports, folder / "rotation_error.png"))
            denser = digits("test", PICTURED, limit=4)[0]
            paths.append(draw_features(networks["DGCNN original"], networks["DGCNN REQNN"], denser, folder / "features.png"))
        for path in paths:
            screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
        return OK if all(kinds["REQNN"].ok for kinds in reports.values()) else NOT_OK


def _measure(net: nn.Module, clouds: Tensor) -> tuple[AuditReport, dict[str, Any]]:
    from reqnn.auditing import audit
    from reqnn.paper.flops import count_operations, parameters

    report = audit(net, clouds, rotations=ROTATIONS, permutations=PERMUTATIONS, vector_axis=-1)
    return report, {
        "parameters": parameters(net),
        "multiply_adds": count_operations(net, clouds[:1]).multiply_adds,
        "rotation_error": report.rotation_error,
        "permutation_error": report.permutation_error,
        "spread": report.spread,
        "ok": report.ok,
    }


def _table(records: list[dict[str, Any]]) -> Table:
    from reqnn.paper.table import Cell, Table

    rows = [
        [
            Cell(record["network"]),
            Cell(record["kind"]),
            Cell(f"{record['rotation_error']:.1e}"),
            Cell(f"{record['permutation_error']:.1e}"),
            Cell(f"{record['spread']:.1e}"),
            Cell("passes" if record["ok"] else "fails"),
            Cell(f"{record['parameters']:,}"),
            Cell(f"{record['multiply_adds'] / 1e6:.1f} M"),
        ]
        for record in records
    ]
    columns = ["network", "kind", "rotation error", "permutation error", "spread", "audit", "parameters", "multiply-adds"]
    return Table(
        "demo",
        "The same networks before and after revision",
        columns,
        rows,
        records,
        {"points": POINTS, "rotations": ROTATIONS, "permutations": PERMUTATIONS, "dtype": "float64"},
        [
            "Errors: the largest of all layers under random and cube rotations and under new orders of the points, relative.",
            "Spread: how far the outputs of different clouds lie apart; an error means little beside a spread as small.",
        ],
    )
