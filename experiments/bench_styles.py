"""`python -m experiments bench-styles`: time and memory of networks in other people's styles, relative to the originals.

The original and its revisions run in turn in one process, so that other load on the machine affects all of them alike. A ratio
compares two runs of the same round; reported are its median and quartiles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reqnn.commands.base import OK, Command, console

if TYPE_CHECKING:
    from torch import Tensor, nn

    from experiments.bench.measure import Call
    from experiments.harness.table import Table

ORIGINAL = "original"
SECONDS = 600  # that a memory measurement may take
Record = dict[str, Any]


@dataclass(kw_only=True)
class BenchStyles(Command):
    """Time public networks as their authors wrote them, and their revisions; memory too, each in a fresh process.

    Examples:
        python -m experiments bench-styles --styles dgcnn pct --batch 4 --repeats 3
        python -m experiments bench-styles --small --points 64 --repeats 2 --out /tmp/bench_styles.json
    """

    styles: tuple[str, ...] = ()
    """Names of networks. Default: all of them."""
    rules: tuple[str, ...] = ("paper", "full")
    """Rule sets."""
    batch: tuple[int, ...] = (4, 16)
    """Clouds in a batch."""
    points: int = 1024
    """Points in a cloud."""
    repeats: int = 7
    """Rounds that are timed."""
    mode: tuple[Literal["inference", "training"], ...] = ("inference", "training")
    """inference (eval mode, no gradients) or training (forward, cross-entropy, backward)."""
    memory: bool = False
    """Measure the peak memory of a training step too."""
    products: bool = False
    """Count the multiplications of all matrix products too: no implementation of the same rules can be far below them."""
    threads: int = 2
    """Threads of torch."""
    seed: int = 0
    """Of weights and clouds."""
    small: bool = False
    """Narrow networks and small clouds, to try the command."""
    out: Path = Path("results/bench_styles.json")
    """The JSON file; a Markdown table is written beside it."""

    def run(self) -> int:
        """Measure everything, writing the results after each network."""
        import torch

        from experiments.styles import STYLES

        torch.set_num_threads(self.threads)
        records: list[Record] = []
        for style in self.styles or STYLES:
            for batch in self.batch:
                new = [record for mode in self.mode for record in measure(style, batch, mode, self)]
                new += memory_records(style, batch, self) if self.memory else []
                table(new, self).print(console())
                records += new
                table(records, self).write(self.out.parent)
        return OK

    def settings(self) -> dict[str, Any]:
        """The options, for the result file."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("debug", "out")}


def build(style: str, variant: str, example: Tensor, small: bool, seed: int) -> nn.Module:
    """Return the original, or its revision by the rule set `variant`."""
    import torch

    import reqnn
    from experiments.styles import STYLES

    torch.manual_seed(seed)
    network = STYLES[style].build(small=small)
    return network if variant == ORIGINAL else reqnn.revise(network, example, rules=variant, **STYLES[style].revise[variant])


def step(network: nn.Module, points: Tensor, mode: str) -> Callable[[], None]:
    """Return one forward pass without gradients, or one training step without optimizer."""
    import torch

    from experiments.styles import calibrate, logits

    def infer() -> None:
        with torch.no_grad():
            network(points)

    def train() -> None:
        network.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(logits(network(points)), torch.arange(len(points)) % 5).backward()

    calibrate(network, points)
    network.train(mode == "training")
    return train if mode == "training" else infer


def measure(style: str, batch: int, mode: str, options: BenchStyles) -> Iterator[Record]:
    """Time the original and its revisions in turn; a network that fails or needs too much memory gets a reason instead."""
    from experiments.bench.measure import Call, Timing, as_record, interleave
    from experiments.styles import STYLES
    from reqnn.errors import ReqnnError

    points = STYLES[style].points(batch, options.points, seed=options.seed)
    calls, failed = [], []
    for variant in (ORIGINAL, *options.rules):
        try:
            network = build(style, variant, points[:2], options.small, options.seed)
            calls.append(Call(variant, step(network, points, mode)))
        except (ReqnnError, MemoryError, RuntimeError) as error:
            failed.append(Timing(variant, skipped=f"{type(error).__name__}: {error}".splitlines()[0]))
    timings = {timing.name: timing for timing in [*interleave(calls, options.repeats), *failed]}
    where = {"style": style, "batch": batch, "points": options.points, "mode": mode}
    for variant in (ORIGINAL, *options.rules):
        yield as_record(timings[variant], timings[ORIGINAL], **where)
    if options.products:
        yield from counts([call for call in calls if not timings[call.name].skipped], where, options)


def counts(calls: Sequence[Call], where: Record, options: BenchStyles) -> Iterator[Record]:
    """Count the multiplications of the products of every call, and relative to the original's."""
    from experiments.bench.multiplications import multiplications

    found = {call.name: multiplications(call.run) for call in calls}
    base = found.get(ORIGINAL)
    for variant in (ORIGINAL, *options.rules):
        count = found.get(variant)
        relative = {"median": count / base} if count and base else None
        record = {**where, "mode": f"{where['mode']}, products", "variant": variant, "multiplications": count}
        yield {**record, "relative": relative, "skipped": None if count else "not run"}


def memory_records(style: str, batch: int, options: BenchStyles) -> list[Record]:
    """Measure the memory of the original and its revisions, each in a fresh process."""
    from experiments.bench.memory import in_fresh_process

    records: list[Record] = []
    for variant in (ORIGINAL, *options.rules):
        where = {"style": style, "variant": variant, "batch": batch, "points": options.points}
        request = {**where, "threads": options.threads, "small": options.small, "seed": options.seed}
        found = in_fresh_process("experiments.bench_styles.probe", request, SECONDS)
        base = (records[0] if records else found).get("peak_bytes")
        peak = found.get("peak_bytes")
        relative = {"median": peak / base} if peak and base else None
        records.append({**where, "mode": "memory", "peak_bytes": peak, "relative": relative, "skipped": found["skipped"]})
    return records


def probe(style: str, variant: str, batch: int, points: int, threads: int, small: bool, seed: int) -> Record:
    """The bytes by which a training step raises the memory of this process at its peak, after a warm-up step."""
    import torch

    from experiments.bench.memory import give_back_free_memory, peak_above_now
    from experiments.styles import STYLES

    torch.set_num_threads(threads)
    clouds = STYLES[style].points(batch, points, seed=seed)
    network = build(style, variant, clouds[:2], small, seed)
    call = step(network, clouds, "training")
    call()
    network.zero_grad(set_to_none=True)
    give_back_free_memory()
    return {"peak_bytes": peak_above_now(call), "skipped": None}


def table(records: list[Record], options: BenchStyles) -> Table:
    """A row for each network, batch and mode, a column for each rule set."""
    from experiments.harness.table import Cell, Table

    rows: dict[tuple[Any, ...], dict[str, str]] = {}
    for r in records:
        rows.setdefault((r["style"], r["batch"], r["mode"]), {})[r["variant"]] = shown(r)
    head = ["network", "batch", "mode", ORIGINAL, *options.rules]
    cells = [[*map(str, where), *(row[variant] for variant in head[3:])] for where, row in rows.items()]
    return Table(
        options.out.stem,
        "Networks in other people's styles: time, products, memory; revisions relative to the original (median and quartiles)",
        head,
        [[Cell(text) for text in row] for row in cells],
        records,
        options.settings(),
        [f"{r['style']}, {r['batch']}, {r['mode']}, {r['variant']}: {r['skipped']}" for r in records if r["skipped"]],
    )


def shown(record: Record) -> str:
    """What was measured: time, memory or multiplications of the original, ratios of the others."""
    from experiments.bench.measure import spread

    if record["skipped"]:
        return "failed"
    if record["variant"] == ORIGINAL:
        peak, count = record.get("peak_bytes"), record.get("multiplications")
        if count:
            return f"{count / 1e9:.1f} · 10⁹"
        return f"{peak / 2**20:.0f} MiB" if peak else f"{spread(record['seconds']).median:.3f} s"
    ratio = record["relative"] or {}
    quartiles = f" ({ratio['low']:.2f}–{ratio['high']:.2f})" if "low" in ratio else ""
    return f"{ratio['median']:.2f}{quartiles}" if ratio else "–"


if __name__ == "__main__":
    from experiments.__main__ import main

    sys.exit(main(["bench-styles", *sys.argv[1:]]))
