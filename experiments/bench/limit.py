"""How far the fused REQNN-DGCNN is from the time of its matrix products alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.bench.measure import Call, as_record, interleave, spread
from experiments.bench.models import step
from experiments.bench.products import dgcnn_products, record_products, replay
from experiments.bench.settings import Settings
from experiments.bench.variants import FUSED, INFERENCE, ORIGINAL, build
from reqnn.models.dgcnn import DGCNN

Record = dict[str, Any]
PRODUCTS = "matrix products alone"


def measure_limit(settings: Settings, note: Callable[[str], None]) -> list[Record]:
    """Records of inference and of its products, interleaved, at the sizes at which ratios are asked for."""
    records: list[Record] = []
    fused = build("dgcnn", FUSED, settings.seed, width=settings.width)
    original = build("dgcnn", ORIGINAL, settings.seed, width=settings.width).network
    assert isinstance(original, DGCNN)
    for batch, points in settings.target_sizes():
        note(f"limit of dgcnn, {batch} × {points} points")
        products = dgcnn_products(original, batch, points)
        inference = step(fused, INFERENCE, batch, points, settings.seed)
        calls = [Call(FUSED, inference, fused.switched), Call(PRODUCTS, replay(products, settings.seed))]
        timings = interleave(calls, settings.repeats, settings.max_seconds)
        made = record_products(inference) if timings[0].seconds else []
        work = sum(product.multiply_adds for product in products)
        where = {"what": "limit", "model": "dgcnn", "mode": INFERENCE, "batch": batch, "points": points}
        for timing in timings:
            record = as_record(timing, timings[1], **where)
            record["multiply_adds"] = work
            record["multiply_adds_recorded"] = sum(product.multiply_adds for product in made)
            record["gigaflops"] = 2e-9 * work / spread(timing.seconds).median if timing.seconds else None
            records.append(record)
    return records
