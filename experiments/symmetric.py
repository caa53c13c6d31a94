"""`python -m experiments symmetric`: answers for clouds with symmetries and exact ties, rotated and reordered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import OK, Command, console

if TYPE_CHECKING:
    from torch import Tensor, dtype, nn

SMALL: dict[str, dict[str, Any]] = {
    "dgcnn": {"k": 20, "width": 0.25},
    "dgcnn, k = 8": {"k": 8, "width": 0.25},
    "pointnet2": {"npoint": (32, 12), "nsample": (12, 16), "width": 0.5},
}
"""Networks for clouds of 40 to 200 points."""

POINTS = 12000
"""Points in one pass."""


@dataclass(kw_only=True)
class Symmetric(Command):
    """Rotate and reorder clouds whose points are images of each other; count the answers that change.

    Networks have fresh weights and the statistics of random clouds; the named ones are those that the package brings, on clouds
    of more than 200 points, by one sample each. A change of logits is given relative to how far those of different clouds are
    apart. The table is written after every network.

    Examples:
        python -m experiments symmetric
        python -m experiments symmetric --rotations 8 --orders 2
    """

    networks: tuple[str, ...] = (*SMALL, "dgcnn.paper.modelnet40", "dgcnn.full.modelnet40")
    """Kinds of network, by each set of rules, and names of weights."""
    rotations: int = 64
    """Rotations of each cloud."""
    orders: int = 24
    """Orders of the points of each rotated cloud."""
    seed: int = 0
    """Of weights, rotations and orders."""
    resume: bool = False
    """Keep the networks that the file has measured with these settings."""
    out: Path = Path("results/symmetric.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Build, rotate, count, write."""
        import torch

        records: list[dict[str, Any]] = []
        if self.resume and self.out.exists():
            found = json.loads(self.out.read_text(encoding="utf-8"))
            wanted = (self.rotations, self.orders, self.seed)
            records = found["rows"] if tuple(found["settings"].values()) == wanted else []
        done = {record["network"] for record in records}
        for name in self.networks:
            for rules, net in build(name, self.seed).items():
                title = f"{name} by {rules}"
                if title in done:
                    continue
                for precision in (torch.float64, torch.float32):
                    records += measure(net.to(precision), title, self.rotations, self.orders, self.seed)
                self.table(records).write(self.out.parent)
        self.table(records).print(console())
        return OK

    def table(self, records: list[dict[str, Any]]) -> Any:
        """What has been measured."""
        from experiments.harness.table import Cell, Table

        columns = ["network", "numbers", "cloud", "points", "copies", "changed answers", "largest change of logits"]
        rows = [
            [Cell(str(record[key])) for key in ("network", "numbers", "cloud", "points", "copies", "changed")]
            for record in records
        ]
        for row, record in zip(rows, records, strict=True):
            row.append(Cell(f"{record['change']:.1e}"))
        title = "Symmetric clouds, rotated and reordered"
        settings = {"rotations": self.rotations, "orders": self.orders, "seed": self.seed}
        notes = [
            f"{sum(r['changed'] for r in records if r['numbers'] == kind)} of "
            f"{sum(r['copies'] for r in records if r['numbers'] == kind)} answers change in {kind}"
            for kind in ("float64", "float32")
        ]
        notes.append("Changes of logits are relative to the mean distance between the logits of two clouds of the list.")
        return Table("symmetric", title, columns, rows, records, settings, notes)


def clouds() -> dict[str, Tensor]:
    """Clouds about 0 in the unit sphere, (N, 3) float64: the solids, and digits of 3D MNIST as voxels."""
    import torch

    import reqnn

    found = solids()
    digits = reqnn.data.load("3d-mnist", "test", points=1024)
    for label in (0, 1, 8):
        digit = digits.points[digits.labels == label][0].double()
        for steps in (7, 14):
            name = f"voxels of a {label}" + (", finer" if steps == 14 else "")
            found[name] = torch.unique((steps * digit).round(), dim=0)
    centred = {name: x.double() - x.double().mean(0) for name, x in found.items()}
    return {name: x / x.norm(dim=-1).amax() for name, x in centred.items()}


def solids() -> dict[str, Tensor]:
    """Grids, cubes, spheres and prisms, (N, 3) float64."""
    import torch

    def grid(*sides: int) -> Tensor:
        return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) - (n - 1) / 2 for n in sides))

    def turned(points: list[tuple[float, float, float]]) -> Tensor:
        """All even permutations of the coordinates and all signs."""
        x = torch.tensor(points, dtype=torch.float64)
        x = torch.cat([x[:, axes] for axes in ([0, 1, 2], [1, 2, 0], [2, 0, 1])])
        return torch.unique((x[:, None] * grid(2, 2, 2) * 2).flatten(0, 1), dim=0)

    golden = (1 + 5**0.5) / 2
    icosahedral = turned([(0, 1, golden)]), turned([(1, 1, 1), (0, golden, 1 / golden)])
    sphere = torch.cat([x / x.norm(dim=-1, keepdim=True) for x in icosahedral])
    octahedral = torch.cat(
        [x / x.norm(dim=-1, keepdim=True) for x in (turned([(1, 0, 0), (1, 1, 1), (1, 1, 0), (3, 2, 1), (2, 3, 1)]),)]
    )
    surface = {n: grid(n, n, n)[(grid(n, n, n).abs().amax(1) == (n - 1) / 2)] for n in (5, 11)}
    found = {f"grid {n}×{n}×{n}": grid(n, n, n) for n in (4, 5, 7, 9)}
    found |= {"cube": surface[5], "large cube": surface[11], "icosahedral sphere": torch.cat([sphere, 0.5 * sphere])}
    found["octahedral sphere"] = octahedral
    for sides in (3, 6):
        angle = torch.arange(4 * sides, dtype=torch.float64) * 2 * torch.pi / (4 * sides)
        apothem = torch.cos(torch.tensor(torch.pi / sides)).double()
        edge = apothem / torch.cos((angle + torch.pi / sides) % (2 * torch.pi / sides) - torch.pi / sides)
        ring = torch.stack([edge * angle.cos(), edge * angle.sin(), 0 * angle], dim=1)
        found[f"prism with {sides} sides"] = torch.cat([ring + torch.tensor([0, 0, z]) for z in (-1.5, -0.5, 0.5, 1.5)])
    return found


def build(name: str, seed: int) -> dict[str, nn.Module]:
    """Networks in eval mode, by their rules."""
    import torch

    import reqnn
    from reqnn.train.prediction import recalibrate

    if name not in SMALL:
        net = reqnn.load(name)
        net.model.votes = 1
        return {name.split(".")[1]: net}
    found = {}
    for rules in ("paper", "full", "vector-neurons"):
        torch.manual_seed(seed)
        net = reqnn.create_model(name.split(",")[0], equivariant=True, rules=rules, num_classes=10, **SMALL[name])
        random = torch.Generator().manual_seed(seed)
        batches = [torch.randn(8, 100, 3, generator=random) * torch.rand(8, 1, 3, generator=random) for _ in range(4)]
        recalibrate(net, [x / x.norm(dim=-1).amax(1)[:, None, None] for x in batches])
        found[rules] = net.eval()
    return found


def measure(net: Any, name: str, rotations: int, orders: int, seed: int) -> list[dict[str, Any]]:
    """Changed answers and logits of one network, a record per cloud."""
    import torch

    from reqnn.quaternion import random_matrix
    from reqnn.train.prediction import predict

    kind: dtype = next(net.parameters()).dtype
    sample = getattr(net.model, "sample", None)
    least, most = (max(200, sample), 1024) if sample else (40, 200)
    records, upright = [], []
    for cloud, x in clouds().items():
        if not least <= len(x) <= most:
            continue
        random = torch.Generator().manual_seed(seed)
        rotated = [x @ matrix.T for matrix in random_matrix(rotations, random, torch.float64) for _ in range(orders)]
        copies = torch.stack([one[torch.randperm(len(x), generator=random)] for one in rotated])
        first, found = predict(net, x[None])[0].double(), predict(net, copies, POINTS // len(x)).double()
        upright.append(first)
        numbers = str(kind).removeprefix("torch.")
        record: dict[str, Any] = {"network": name, "numbers": numbers, "cloud": cloud, "points": len(x), "copies": len(found)}
        records.append(
            record | {"changed": int((found.argmax(-1) != first.argmax()).sum()), "change": float((found - first).abs().amax())}
        )
    spread = torch.pdist(torch.stack(upright), p=torch.inf).mean() if len(upright) > 1 else torch.ones(())
    return [record | {"change": record["change"] / float(spread), "spread": float(spread)} for record in records]
