"""Time and memory of networks in other people's styles, relative to the originals: ``python -m experiments.bench_styles``.

The original and its revisions run in turn in one process (original, paper, full, original, …), so that other load on the
machine affects all of them. A ratio compares two runs of the same round; reported are its median and quartiles.
"""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import torch
import tyro
from torch import Tensor, nn

import reqnn
from experiments.styles import STYLES, calibrate, logits
from reqnn.errors import ReqnnError
from reqnn.provenance import provenance

ORIGINAL = "original"
Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        styles: names of networks.
        rules: rule sets.
        batch: clouds in a batch.
        points: points in a cloud.
        repeats: rounds that are timed.
        mode: inference (eval mode, no gradients) or training (forward, cross-entropy, backward).
        memory: measure the peak memory of a training step too, each in a fresh process.
        threads: of torch.
        seed: of weights and clouds.
        small: narrow networks and small clouds, to try the command.
        out: JSON file; a Markdown table is written beside it.
    """

    styles: tuple[str, ...] = tuple(STYLES)
    rules: tuple[str, ...] = ("paper", "full")
    batch: tuple[int, ...] = (4, 16)
    points: int = 1024
    repeats: int = 7
    mode: tuple[Literal["inference", "training"], ...] = ("inference", "training")
    memory: bool = False
    threads: int = 2
    seed: int = 0
    small: bool = False
    out: Path = Path("results/bench_styles.json")


def build(style: str, variant: str, example: Tensor, settings: Settings) -> nn.Module:
    """Return the original, or its revision by the rule set `variant`."""
    torch.manual_seed(settings.seed)
    network = STYLES[style].build(small=settings.small)
    return network if variant == ORIGINAL else reqnn.revise(network, example, rules=variant, **STYLES[style].revise[variant])


def step(network: nn.Module, points: Tensor, mode: str) -> Callable[[], None]:
    """Return one forward pass without gradients, or one training step without optimizer."""

    def infer() -> None:
        with torch.no_grad():
            network(points)

    def train() -> None:
        network.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(logits(network(points)), torch.arange(len(points)) % 5).backward()

    calibrate(network, points)
    network.train(mode == "training")
    return train if mode == "training" else infer


def measure(style: str, batch: int, mode: str, settings: Settings) -> list[Record]:
    """Time the original and its revisions in turn; a network that fails or needs too much memory gets a reason instead."""
    points = STYLES[style].points(batch, settings.points, seed=settings.seed)
    calls: dict[str, Callable[[], None]] = {}
    failed: dict[str, str] = {}
    for variant in (ORIGINAL, *settings.rules):
        try:
            calls[variant] = step(build(style, variant, points[:2], settings), points, mode)
            for _ in range(2):  # warm up
                calls[variant]()
        except (ReqnnError, MemoryError, RuntimeError) as error:
            calls.pop(variant, None)
            failed[variant] = f"{type(error).__name__}: {error}".splitlines()[0]
    seconds: dict[str, list[float]] = {variant: [] for variant in calls}
    for variant, call in list(calls.items()) * settings.repeats:
        gc.collect()
        seconds[variant].append(timeit.timeit(call, number=1))
    where = {"style": style, "batch": batch, "points": settings.points, "mode": mode}
    times = {variant: compared(seconds.get(variant), seconds.get(ORIGINAL)) for variant in (ORIGINAL, *settings.rules)}
    return [{**where, "variant": variant, **times[variant], "failed": failed.get(variant)} for variant in times]


def compared(seconds: list[float] | None, original: list[float] | None) -> Record:
    """Return the seconds, and the median and quartiles of their ratio to the original's in the same round."""
    if not seconds or not original:
        return {"seconds": seconds, "ratio": None}
    ratios = [a / b for a, b in zip(seconds, original, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return {"seconds": seconds, "ratio": {"median": median, "low": low, "high": high}}


def memory_records(style: str, batch: int, settings: Settings) -> list[Record]:
    """Measure the memory of the original and its revisions, each in a fresh process."""
    code = "import sys; from experiments.bench_styles import probe; probe(sys.argv[1])"
    records: list[Record] = []
    for variant in (ORIGINAL, *settings.rules):
        request = json.dumps([style, variant, batch, asdict(settings)], default=str)
        done = subprocess.run([sys.executable, "-c", code, request], capture_output=True, text=True, check=False)
        record: Record = {"style": style, "batch": batch, "points": settings.points, "mode": "memory", "variant": variant}
        record |= {"peak_bytes": None, "ratio": None, "failed": None}
        records.append(record)
        if done.returncode:
            record["failed"] = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            continue
        record["peak_bytes"] = int(done.stdout.split()[-1])
        if records[0]["peak_bytes"]:
            record["ratio"] = {"median": record["peak_bytes"] / records[0]["peak_bytes"]}
    return records


def probe(request: str) -> None:
    """Print the bytes by which a training step raises the memory of this process at its peak, after a warm-up step."""
    style, variant, batch, arguments = json.loads(request)
    settings = Settings(**arguments)
    torch.set_num_threads(settings.threads)
    points = STYLES[style].points(batch, settings.points, seed=settings.seed)
    network = build(style, variant, points[:2], settings)
    call = step(network, points, "training")
    call()
    network.zero_grad(set_to_none=True)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps would hide what the step needs
    before = psutil.Process().memory_info().rss
    Path("/proc/self/clear_refs").write_text("5")  # reset VmHWM; ru_maxrss would begin with the memory of the parent
    call()
    print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024 - before)


def cell(record: Record) -> str:
    """Return what was measured: time or memory of the original, ratios of the others."""
    if record["failed"]:
        return "failed"
    if record["variant"] == ORIGINAL:
        peak = record.get("peak_bytes")
        return f"{peak / 2**20:.0f} MiB" if peak else f"{statistics.median(record['seconds']):.3f} s"
    ratio = record["ratio"] or {}
    spread = f" ({ratio['low']:.2f}–{ratio['high']:.2f})" if "low" in ratio else ""
    return f"{ratio['median']:.2f}{spread}" if ratio else "–"


def table(records: list[Record], rules: tuple[str, ...]) -> str:
    """Return a Markdown table: a row for each network, batch and mode, a column for each rule set."""
    rows: dict[tuple, dict[str, str]] = {}
    for r in records:
        rows.setdefault((r["style"], r["batch"], r["mode"]), {})[r["variant"]] = cell(r)
    head = ["network", "batch", "mode", ORIGINAL, *rules]
    body = [[*map(str, where), *(row[variant] for variant in head[3:])] for where, row in rows.items()]
    return "".join("| " + " | ".join(line) + " |\n" for line in (head, ["---"] * len(head), *body))


def main(settings: Settings) -> None:
    """Measure everything, writing the results after each network."""
    torch.set_num_threads(settings.threads)
    results: Record = {"settings": asdict(settings), **provenance(), "records": []}
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    for style in settings.styles:
        for batch in settings.batch:
            new = [record for mode in settings.mode for record in measure(style, batch, mode, settings)]
            new += memory_records(style, batch, settings) if settings.memory else []
            print(table(new, settings.rules), flush=True)
            results["records"] += new
            settings.out.write_text(json.dumps(results, indent=1, default=str) + "\n")
            settings.out.with_suffix(".md").write_text(table(results["records"], settings.rules))


if __name__ == "__main__":
    limit = psutil.Process().memory_info().vms + int(0.9 * psutil.virtual_memory().available)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # a network that needs more fails, the others are measured
    main(tyro.cli(Settings))
