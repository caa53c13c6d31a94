"""`python -m experiments collate`: clouds of different sizes in one padded batch, against each of them alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reqnn.commands.base import NOT_OK, OK, Command, console


@dataclass(kw_only=True)
class Collate(Command):
    """Count the clouds whose outputs differ between a `reqnn.collate` of all of them and a pass with each one alone.

    Bit for bit if clouds pass the network one by one (`most=1`). Several of one size in a pass round differently, as in any
    batch: there the classes are compared, and in float64 the logits, to 1e-9 of their spread. Exit code 1 if one differs.

    Examples:
        python -m experiments collate
        python -m experiments collate --networks runs/mine --clouds 100
    """

    networks: tuple[str, ...] = ("dgcnn.full.modelnet40",)
    """Names of weights, or runs."""
    clouds: int = 1000
    """How many."""
    sizes: int = 50
    """How many different numbers of points."""
    points: tuple[int, int] = (256, 512)
    """The smallest and the largest number of points."""
    exact: int = 100
    """How many of the clouds are compared in float64."""
    batch: int = 16
    """Clouds of one size in a pass, at most."""
    seed: int = 0
    """Of the clouds."""
    out: Path = Path("results/collate.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Compare, write."""
        import torch

        import reqnn
        from experiments.harness.table import Cell, Table

        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randint(self.points[0], self.points[1] + 1, (self.sizes,), generator=generator)
        sizes = drawn[torch.randint(self.sizes, (self.clouds,), generator=generator)].tolist()
        made = [reqnn.data.surfaces(1, size, seed=self.seed + i, dtype=torch.float32)[0][0] for i, size in enumerate(sizes)]
        batch, records = reqnn.collate(made), []
        for name in self.networks:
            net = reqnn.load(name).eval()
            with torch.no_grad():
                alone = torch.cat([net(cloud[None]) for cloud in made])
                one_by_one, together = batch.map(net, most=1), batch.map(net, most=self.batch)
                exact, some = net.double(), reqnn.collate(made[: self.exact]).to(torch.float64)
                singles, grouped = some.map(exact, most=1), some.map(exact, most=self.batch)
            moved = (grouped - singles).abs().amax(1) / singles.std()
            record = {
                "network": name,
                "clouds": self.clouds,
                "sizes": len(set(sizes)),
                "differ_bit_for_bit": int((one_by_one != alone).any(1).sum()),
                "other_class_in_batches": int((together.argmax(1) != alone.argmax(1)).sum()),
                "differ_in_float64": int((moved > 1e-9).sum()),
                "largest_in_float64": float(moved.max()),
                "largest_change_of_a_probability": float((together.softmax(1) - alone.softmax(1)).abs().max()),
            }
            records.append(record)
        columns = ["network", "clouds", "sizes", "differ, one by one", "other class, in batches", "differ, in batches, float64"]
        columns += ["largest of these", "largest change of a probability, in batches, float32"]
        rows = [[Cell(f"{x:.0e}" if isinstance(x, float) else str(x)) for x in record.values()] for record in records]
        settings = {"clouds per pass": self.batch, "points": f"{min(sizes)} to {max(sizes)}", "seed": self.seed}
        notes = [
            "One by one: float32, bit for bit. In float64: the first "
            f"{self.exact}, by more than 1e-9 of the standard deviation of the logits."
        ]
        table = Table("collate", "Padded batches against single clouds", columns, rows, records, settings, notes)
        table.print(console())
        table.write(self.out.parent)
        counts = ("differ_bit_for_bit", "other_class_in_batches", "differ_in_float64")
        return NOT_OK if any(record[count] for record in records for count in counts) else OK
