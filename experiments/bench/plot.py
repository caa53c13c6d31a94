"""The picture of a benchmark: time of the networks relative to their originals, and growth with N."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no window, no display

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

from experiments.bench.measure import spread
from experiments.bench.settings import TARGET_POINTS
from experiments.bench.variants import FUSED, MODES, ORIGINAL, PLAIN

Record = dict[str, Any]
COLOURS = {ORIGINAL: "#c44e52", PLAIN: "#9aa3af", FUSED: "#2a6fb0"}
FAINT = "#6b7280"


def draw(results: Record, path: Path) -> Path | None:
    """Draw what was measured; None without networks and growth."""
    records = results["records"]
    networks = [r for r in records if r["what"] == "models" and r["relative"]]
    growth = [r for r in records if r["what"] == "growth" and r["sizes"]]
    panels: list[tuple[float, Callable[[Any], None]]] = []
    if networks:
        panels.append((1.5, lambda panel: _draw_networks(panel, networks)))
    for kind, title in (("operation", "point operations"), ("network", "networks, inference")):
        lines = [r for r in growth if r["kind"] == kind]
        if lines:
            panels.append((1.0, partial(_draw_growth, growth=lines, title=f"Growth of {title}")))
    if not panels:
        return None
    widths = [width for width, _ in panels]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.2 * sum(widths), 4.6), width_ratios=widths, squeeze=False, layout="constrained"
    )
    for panel, (_, draw_panel) in zip(axes[0], panels, strict=True):
        draw_panel(panel)
        panel.spines[["top", "right"]].set_visible(False)
    threads = results["settings"]["threads"]
    figure.suptitle(f"{results['cpu']}, {threads} threads, float32", x=0.01, ha="left", fontsize=10, color=FAINT)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return path


def shown_size(networks: list[Record]) -> tuple[int, int]:
    """Batch and points of the bars: where ratios are asked for, the largest batch."""
    sizes = {(r["batch"], r["points"]) for r in networks}
    return max(sizes, key=lambda size: (size[1] == TARGET_POINTS, size))


def _draw_networks(panel: Any, networks: list[Record]) -> None:
    """Groups of bars, one per network and mode; the height is the time relative to the original, logarithmic."""
    batch, points = shown_size(networks)
    rows = [r for r in networks if (r["batch"], r["points"]) == (batch, points)]
    groups = [(model, mode) for model in dict.fromkeys(r["model"] for r in rows) for mode in MODES]
    names = [name for name in COLOURS if any(r["variant"] == name for r in rows)]
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        for group, (model, mode) in enumerate(groups):
            for r in rows:
                if (r["model"], r["mode"], r["variant"]) == (model, mode, name):
                    _draw_bar(panel, group + (place - (len(names) - 1) / 2) * width, width, r["relative"], COLOURS[name])
        panel.bar(0, 0, color=COLOURS[name], label=name)
    panel.axhline(1, color=FAINT, linewidth=0.8)
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_xticks(range(len(groups)), [f"{model}\n{mode}" for model, mode in groups], fontsize=8)
    panel.set_ylabel("time, the original's = 1")
    panel.set_title(f"Networks, {batch} × {points} points", loc="left", fontweight="bold", fontsize=11)
    panel.margins(y=0.1)
    panel.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=len(names))


def _draw_bar(panel: Any, x: float, width: float, relative: Record, colour: str) -> None:
    value = relative["median"]
    panel.bar(x, value, width, color=colour)
    panel.errorbar(x, value, [[value - relative["low"]], [relative["high"] - value]], color="black", linewidth=0.8, capsize=1.5)
    panel.annotate(
        f"{value:.2g}", (x, max(value, relative["high"])), (0, 3), textcoords="offset points", ha="center", fontsize=7
    )


def _draw_growth(panel: Any, growth: list[Record], title: str) -> None:
    """Time against the number of points, both logarithmic, with the fitted exponents."""
    for record, marker in zip(growth, "os^Dv<>ph*" * len(growth), strict=False):
        medians = [1e3 * spread(values).median for values in record["seconds"]]
        exponent = f": N^{record['exponent']['median']:.2f}" if record["exponent"] else ""
        line = ":" if "original" in record["name"] or "scipy" in record["name"] else "-"
        panel.loglog(
            record["sizes"], medians, line, marker=marker, markersize=4, linewidth=1.3, label=record["name"] + exponent
        )
    sizes = sorted({n for record in growth for n in record["sizes"]})
    panel.set_xticks(sizes, [str(n) for n in sizes], fontsize=7, rotation=45)
    panel.minorticks_off()
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("points")
    panel.set_ylabel("milliseconds")
    panel.grid(alpha=0.25)
    panel.set_title(title, loc="left", fontweight="bold", fontsize=11)
    panel.legend(frameon=False, fontsize=7)
