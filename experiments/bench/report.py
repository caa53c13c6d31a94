"""Results of a benchmark as tables: to the terminal and to Markdown."""

from __future__ import annotations

from typing import Any

from experiments.bench.kernels import KERNEL
from experiments.bench.measure import spread
from experiments.bench.settings import WHAT
from experiments.bench.variants import ORIGINAL, RULE_SETS, VARIANTS
from experiments.harness.table import Cell, Table

Record = dict[str, Any]
NOT_THERE, NOT_ASKED = "–", ""
PREFIX = {"memory": "memory of ", "rules": "rule sets of "}


def tables(results: Record) -> list[Table]:
    """One table for each part that was measured, and the targets first."""
    of: dict[str, list[Record]] = {part: [r for r in results["records"] if r["what"] == part] for part in WHAT}
    made = [
        targets_table(results["targets"]),
        *(networks_table(name, title, of[name], *rest) for name, (title, *rest) in NETWORKS.items()),
        limit_table(of["limit"]),
        kernels_table(of["kernels"]),
        growth_table(of["growth"]),
    ]
    return [table for table in made if table.rows]


def targets_table(targets: list[Record]) -> Table:
    """Asked, measured, met; what was not measured is not shown."""
    rows = [
        [t["name"], _spread(t["value"]), f"{t['relation']} {t['asked']:.3g}", "yes" if t["met"] else "no"]
        for t in targets
        if t["value"] is not None
    ]
    missing = sum(t["value"] is None for t in targets)
    notes = ["Median, and the middle half of the repeats, of ratios taken within each repeat."]
    notes += [f"{missing} of {len(targets)} targets were not measured in this run."] if missing else []
    return _table("targets", "Targets", ["target", "measured", "asked", "met"], rows, notes)


def networks_table(name: str, title: str, records: list[Record], variants: tuple[str, ...], show: Any) -> Table:
    """One row per network, mode and size, one column per variant."""
    columns = ("model", "mode", "batch", "points")
    return _table(name, title, ["network", *columns[1:], *variants], _by_variant(records, columns, variants, show))


def limit_table(records: list[Record]) -> Table:
    """Inference and its products."""
    rows = [
        [r["variant"], str(r["batch"]), str(r["points"]), _time(r), _relative(r), f"{r['gigaflops'] or 0:.1f}"] for r in records
    ]
    columns = ["REQNN-DGCNN, inference", "batch", "points", "time", "× products", "GFLOP/s of products"]
    return _table("limit", "Distance to the limit", columns, rows)


def kernels_table(records: list[Record]) -> Table:
    """A row for each kernel and size; the other ways in times of the kernel's."""
    others = tuple(dict.fromkeys(r["variant"] for r in records if r["variant"] != KERNEL))
    rows = _by_variant(records, ("kernel", "batch", "points"), (KERNEL, *others), _time_cell)
    columns = ["kernel", "batch", "points", KERNEL, *others]
    return _table("kernels", "Time of kernels (in brackets: relative to the kernel)", columns, rows)


def growth_table(records: list[Record]) -> Table:
    """Exponents."""
    rows = [
        [r["name"], f"{r['sizes'][0]} to {r['sizes'][-1]}" if r["sizes"] else NOT_THERE, _spread(r["exponent"])]
        for r in records
    ]
    return _table("growth", "Growth with the number of points: time ∝ N^a", ["what", "points", "a"], rows)


def left_out(results: Record) -> list[str]:
    """What was not timed, and why; variants and modes that share a reason in one line."""
    same: dict[tuple[str, str], list[str]] = {}
    for r in results["records"]:
        if r["skipped"]:
            subject = next(r[key] for key in ("model", "kernel", "name") if key in r)
            size = f", {r['batch']} × {r['points']} points" if "batch" in r else ""
            place = f"{PREFIX.get(r['what'], '')}{subject}{size}"
            which = ", ".join(r[key] for key in ("variant", "mode") if key in r)
            same.setdefault((place, r["skipped"]), []).append(which)
    return [f"{place} ({'; '.join(filter(None, which))}): {why}".replace(" ()", "") for (place, why), which in same.items()]


def markdown(results: Record, picture: str | None = None) -> str:
    """The whole report."""
    settings = results["settings"]
    lines = ["# Benchmark", ""]
    lines += [f"{results['cpu']}, {settings['threads']} threads, float32, {_repeats(results)}, interleaved.", ""]
    lines += [f"![time relative to the original, and growth]({picture})", ""] if picture else []
    for table in tables(results):
        lines.append(table.to_markdown(2))
    lines += ["## What the names mean", "", *(f"- **{name}**: {text}" for name, text in results["meaning"].items()), ""]
    reasons = left_out(results)
    lines += ["## Left out", "", *(f"- {line}" for line in reasons), ""] if reasons else []
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    stamp = [versions, f"seed {settings['seed']}", *([f"commit {results['commit']}"] if results["commit"] else [])]
    return "\n".join([*lines, f"<sub>{', '.join(stamp)}</sub>", ""])


def _repeats(results: Record) -> str:
    """3 repeats; where parts come from several runs, of each: models 4, memory 7 repeats."""
    counts = {part: made["settings"]["repeats"] for part, made in results.get("parts", {}).items()}
    if len(set(counts.values())) < 2:
        return f"{results['settings']['repeats']} repeats"
    return f"{', '.join(f'{part} {count}' for part, count in counts.items())} repeats"


def _by_variant(records: list[Record], keys: tuple[str, ...], variants: tuple[str, ...], show: Any) -> list[list[str]]:
    """One row for all records that agree in the keys, one column for each variant."""
    rows: dict[tuple, dict[str, str]] = {}
    for r in records:
        rows.setdefault(tuple(r[key] for key in keys), {})[r["variant"]] = show(r)
    return [[*map(str, where), *(cells.get(variant, NOT_ASKED) for variant in variants)] for where, cells in rows.items()]


def _time_cell(r: Record) -> str:
    return f"{_time(r)} ({_relative(r)})" if r["relative"] and r["relative"]["median"] != 1 else _time(r)


def _memory_cell(r: Record) -> str:
    if r["peak_bytes"] is None:
        return NOT_THERE
    saved = f" ({r['saved_bytes'] / 1e6:.0f})" if r["saved_bytes"] else ""
    return f"{r['peak_bytes'] / 1e6:.0f}{saved} MB"


def _time(r: Record) -> str:
    if not r["seconds"]:
        return NOT_THERE
    seconds = spread(r["seconds"]).median
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{1e3 * seconds:.3g} ms"


def _relative(r: Record) -> str:
    return f"{r['relative']['median']:.3g}×" if r["relative"] else NOT_THERE


def _spread(value: Record | None) -> str:
    return f"{value['median']:.3g} [{value['low']:.3g}, {value['high']:.3g}]" if value else NOT_THERE


def _table(name: str, title: str, columns: list[str], rows: list[list[str]], notes: list[str] | None = None) -> Table:
    cells = [[Cell(text) for text in row] for row in rows]
    return Table(name, title, columns, cells, [], {}, notes or [])


NETWORKS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "models": ("Time of networks (in brackets: relative to the original)", VARIANTS, _time_cell),
    "rules": (
        "Time of networks by rule set (in brackets: relative to the original)",
        (ORIGINAL, *RULE_SETS),
        _time_cell,
    ),
    "memory": (
        "Peak memory of networks above the idle process (in brackets: kept for backward)",
        VARIANTS,
        _memory_cell,
    ),
}
"""Part of the benchmark → title, variants and cell of its table."""
