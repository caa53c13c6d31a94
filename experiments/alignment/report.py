"""The results as tables, JSON and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from experiments.alignment.measure import ICP, NETWORK, OURS, PCA, REFINED, VECTORS, Experiment, Measured
from experiments.harness.table import Cell, Table
from reqnn.alignment.result import AMBIGUOUS_BELOW

COLOURS = {OURS: "#1f5fa8", REFINED: "#2a9d8f", NETWORK: "#5b4fa2", VECTORS: "#b8860b", PCA: "#c44e52", ICP: "#6b7280"}


def ways_table(result: Experiment) -> Table:
    """One row per method, over all classes."""
    everything = torch.ones_like(result.labels, dtype=torch.bool)
    records = [{"way": "two copies, permuted: align", **_summary(result.copies, everything)}]
    records += [{"way": way, **_summary(found, everything)} for way, found in result.samplings.items()]
    rows = [[Cell(r["way"]), Cell(str(r["shapes"])), *_shown(r), Cell(f"{1e3 * r['seconds']:.0f} ms")] for r in records]
    size = result.settings["points of a sampling"]
    notes = [
        "First row: two copies of the same cloud, the second in another order and orientation. Other rows: two samplings of "
        f"the same surface without a common point, {size} points each, in random relative orientations.",
        f"Ambiguous: confidence below {AMBIGUOUS_BELOW}. Sure: those that are not; the share of them that is right.",
        "Time for one pair on one core.",
    ]
    columns = ["way", "shapes", "median", "< 5°", "< 15°", "ambiguous", "sure: < 5°", "sure: < 15°", "time"]
    return Table("align", "Alignment without correspondences", columns, rows, records, dict(result.settings), notes)


def classes_table(result: Experiment) -> Table:
    """One row per class: our method, and the others."""
    records, rows = [], []
    for label, name in enumerate(result.classes):
        chosen = result.labels == label
        if not bool(chosen.any()):
            continue
        by_way = {way: _summary(found, chosen) for way, found in result.samplings.items()}
        records.append({"class": name, **by_way})
        ours = by_way[OURS]
        others = [Cell(_percent(by_way[way]["under_15"])) for way in (REFINED, VECTORS, PCA, ICP)]
        rows.append([Cell(name), Cell(str(ours["shapes"])), *_shown(ours), *others])
    columns = ["class", "shapes", "median", "< 5°", "< 15°", "ambiguous", "sure: < 5°", "sure: < 15°"]
    columns += ["refined < 15°", "vectors < 15°", "PCA < 15°", "ICP < 15°"]
    return Table("align-classes", "Different samplings, class by class", columns, rows, records)


def _summary(found: Measured, chosen: Tensor) -> dict[str, Any]:
    """Median, shares under 5° and 15°, and the same for those that are not flagged."""
    tried = chosen & ~found.errors.isnan()
    errors = found.errors[tried]
    if not len(errors):
        return {"shapes": 0, "median": None, "under_5": None, "under_15": None, "flagged": None, "seconds": 0.0}
    share = {"shapes": len(errors), "median": float(errors.quantile(0.5)), **_under(errors, "")}
    share["seconds"] = found.seconds / max(1, int((~found.errors.isnan()).sum()))
    if found.confidence is None:
        return share | {"flagged": None}
    flagged = found.confidence[tried] < AMBIGUOUS_BELOW
    return share | {"flagged": float(flagged.double().mean()), **_under(errors[~flagged], "sure_")}


def _under(errors: Tensor, prefix: str) -> dict[str, Any]:
    return {f"{prefix}under_{d}": float((errors < d).double().mean()) if len(errors) else None for d in (5, 15)}


def _shown(record: dict[str, Any]) -> list[Cell]:
    median = record["median"]
    text = "–" if median is None else f"{median:.0e}°" if median < 1e-3 else f"{median:.3g}°"
    names = ("under_5", "under_15", "flagged", "sure_under_5", "sure_under_15")
    return [Cell(text), *(Cell(_percent(record.get(name))) for name in names)]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def write(result: Experiment, folder: Path) -> list[Path]:
    """``align.json``, ``align.md`` and ``align.png``."""
    ways, classes = ways_table(result), classes_table(result)
    ways.records = [{"table": "ways", **r} for r in ways.records] + [{"table": "classes", **r} for r in classes.records]
    paths = ways.write(folder)
    picture = draw(result, folder / "align.png")
    parts = ["# Alignment", f"![Rotation errors, and what the confidence flags]({picture.name})"]
    text = "\n\n".join([*parts, ways.to_markdown(2), classes.to_markdown(2), ways.stamp()]) + "\n"
    paths[0].write_text(text, encoding="utf-8")
    return [*paths, picture]


def draw(result: Experiment, path: Path) -> Path:
    """Left: the share of shapes below each error. Right: for each class what is right, wrong, and flagged."""
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    for way, found in result.samplings.items():
        errors = found.errors[~found.errors.isnan()].sort().values
        share = 100 * torch.arange(1, len(errors) + 1) / max(1, len(errors))
        label = f"{way}, {len(errors)} shapes" if len(errors) < len(result.labels) else way
        left.semilogx(errors.clamp(min=0.1), share, color=COLOURS[way], linewidth=2.2 if way == OURS else 1.4, label=label)
    for angle in (5, 15):
        left.axvline(angle, color="#999999", linewidth=1, linestyle=":")
    left.set(xlim=(0.1, 180), ylim=(0, 100), xlabel="rotation error, degrees", ylabel="share of shapes below it, %")
    left.set_xticks([0.1, 1, 5, 15, 45, 180], ["0.1", "1", "5", "15", "45", "180"])
    left.minorticks_off()
    left.legend(frameon=False, loc="upper left")
    left.set_title(f"Two samplings of {result.settings['points of a sampling']} points, all classes", loc="left")
    _draw_classes(right, result)
    figure.savefig(path, dpi=110)
    return path


def _draw_classes(axis: Any, result: Experiment) -> None:
    found = result.samplings[OURS]
    assert found.confidence is not None
    sure, good = found.confidence >= AMBIGUOUS_BELOW, found.errors < 15
    parts = {
        "sure and right": (sure & good, "#1f5fa8"),
        "flagged as ambiguous, yet right": (~sure & good, "#9dbfe0"),
        "flagged as ambiguous, wrong": (~sure & ~good, "#e3c27a"),
        "sure and wrong": (sure & ~good, "#c44e52"),
    }
    labels = [label for label in range(len(result.classes)) if bool((result.labels == label).any())]
    shares = {
        name: [100 * float(mask[result.labels == label].double().mean()) for label in labels]
        for name, (mask, _) in parts.items()
    }
    order = sorted(range(len(labels)), key=lambda i: shares["sure and right"][i])
    start = [0.0] * len(labels)
    for name, (_, colour) in parts.items():
        widths = [shares[name][i] for i in order]
        axis.barh(range(len(order)), widths, left=start, color=colour, label=name, height=0.8)
        start = [a + b for a, b in zip(start, widths, strict=True)]
    axis.set_yticks(range(len(order)), [result.classes[labels[i]] for i in order], fontsize=8)
    axis.set(xlim=(0, 100), ylim=(-0.6, len(order) - 0.4), xlabel="share of the class, %; right: error below 15°")
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=2, fontsize=9)
    axis.set_title("align, class by class", loc="left")
