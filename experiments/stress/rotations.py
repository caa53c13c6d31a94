"""Rotate test shapes and compare the answers of shipped weights; the count grows from run to run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

SIZE = 16  # shapes at a time
SAVED = 120.0  # seconds between two records


def rotations(
    before: dict[str, Any], count: int, weights: str, data: str, minutes: float | None, save: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Continue a record until `count` rotated shapes were tried, or the time is up; `save` gets it every two minutes.

    Rotated shape i is test shape i mod S in a random orientation by the seed i div SIZE: no two are the same.
    """
    import torch

    import reqnn
    from reqnn.train.prediction import predict

    found: dict[str, Any] = before or {"tried": 0, "changed": 0, "largest_change": 0.0, "changes": []}
    found |= {"weights": weights, "data": f"{data} test"}
    net = reqnn.load(weights)
    clouds = reqnn.data.load(data, "test", points=net.card["points"])
    end = None if minutes is None else time.monotonic() + 60 * minutes
    saved = time.monotonic()
    while found["tried"] < count and (end is None or time.monotonic() < end):
        first = found["tried"]
        index = torch.arange(first, first + SIZE) % len(clouds)
        points = clouds.points[index]
        rotated = reqnn.data.rotate(points, "AR", torch.Generator().manual_seed(first // SIZE))[0]
        upright, turned = (predict(net, some, SIZE).double().softmax(-1) for some in (points, rotated))
        found["tried"] += SIZE
        found["largest_change"] = max(found["largest_change"], float((upright - turned).abs().max()))
        for i in (upright.argmax(-1) != turned.argmax(-1)).nonzero()[:, 0].tolist():
            best, second = upright[i].topk(2).values.tolist()
            found["changed"] += 1
            found["changes"].append({"item": first + i, "shape": int(index[i]), "lead": best - second})
        if time.monotonic() - saved > SAVED:
            save(found)
            saved = time.monotonic()
            print(f"{found['tried']} rotated shapes, {found['changed']} changed", file=sys.stderr, flush=True)
    return found
