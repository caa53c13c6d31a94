"""`python -m experiments retrieval`: mean average precision of upright queries in a rotated gallery."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from reqnn.commands.base import OK, Command, console, optional

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(kw_only=True)
class Retrieval(Command):
    """Rank the other shapes of a test set by the cosine of their embeddings; upright queries, upright and rotated galleries.

    A query's own copy in the gallery is left out. Relevant are the shapes of its class.

    Examples:
        python -m experiments retrieval
        python -m experiments retrieval --networks dgcnn.full.modelnet40 runs/mine --limit 200
    """

    networks: tuple[str, ...] = ("dgcnn.full.modelnet40", "dgcnn.paper.modelnet40")
    """Names of weights, or runs."""
    data: str = "modelnet40"
    """The data set."""
    limit: Annotated[int | None, optional("INT")] = None
    """Use that many shapes only, evenly spaced in the test set."""
    seed: int = 0
    """Of the rotations and of the random embedding."""
    out: Path = Path("results/retrieval.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Embed, rank, write."""
        import torch

        import reqnn
        from experiments.harness.table import Cell, Table

        rows, records, count = [], [], 0
        for name in self.networks:
            net = reqnn.load(name)
            clouds = reqnn.data.load(self.data, "test", points=net.card["points"])
            chosen = torch.arange(0, len(clouds), max(1, len(clouds) // (self.limit or len(clouds))))
            points, labels, count = clouds.points[chosen], clouds.labels[chosen], len(chosen)
            generator = torch.Generator().manual_seed(self.seed)
            copies = reqnn.data.rotate(points, "AR", generator)[0]
            noise = torch.randn(count, 64, generator=generator)
            upright, rotated = reqnn.embed(points, net), reqnn.embed(copies, net)
            found = {
                "upright": mean_average_precision(upright, upright, labels),
                "rotated": mean_average_precision(upright, rotated, labels),
                "chance": mean_average_precision(noise, noise, labels),
            }
            cosine = torch.nn.functional.cosine_similarity(upright, rotated).min()
            records.append({"network": name, **found, "least_cosine": float(cosine)})
            rows.append([Cell(name), *(Cell(f"{100 * value:.2f} %") for value in found.values()), Cell(f"{cosine:.6f}")])
        columns = ["embedding", "upright gallery", "rotated gallery", "random embedding", "least cosine of two copies"]
        title = "Retrieval: mean average precision of upright queries"
        settings = {"data": f"{self.data} test", "shapes": count, "seed": self.seed}
        table = Table("retrieval", title, columns, rows, records, settings)
        table.print(console())
        table.write(self.out.parent)
        return OK


def mean_average_precision(queries: Tensor, gallery: Tensor, labels: Tensor) -> float:
    """Mean over the queries of the average precision, by cosine; entry i of the gallery is a copy of query i and left out.

    AP = 1/R Σ_r r / (place of the r-th relevant entry). Queries without another shape of their class do not count.

    Shapes: queries (n, d), gallery (n, d), labels (n,).
    """
    import torch
    from torch.nn.functional import normalize

    similarity = normalize(queries.double(), dim=1) @ normalize(gallery.double(), dim=1).T
    order = similarity.fill_diagonal_(-torch.inf).argsort(dim=1, descending=True, stable=True)[:, :-1]
    relevant = labels[order] == labels[:, None]
    places = torch.arange(1, relevant.shape[1] + 1)
    precision = relevant.cumsum(1) / places
    counts = relevant.sum(1)
    return float(((precision * relevant).sum(1) / counts.clamp_min(1))[counts > 0].mean())
