"""The scanned household objects that ship with the package, whole and with a part cut away; no download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reqnn.data.dataset import PointClouds
from reqnn.data.layouts.base import Request
from reqnn.data.scanned import scanned
from reqnn.data.sets.base import NamedSet

CUT = 0.2


def _clouds(cut: float) -> Callable[[Request], PointClouds]:
    def load(request: Request) -> PointClouds:
        found = scanned(
            request.split,
            request.points,
            request.seed,
            cut=cut,
            sampling=request.sampling,
            short=request.short,
            normalize=request.normalize is not False,
        )
        return replace(found, name=request.name, up=request.up or found.up)

    return load


WHOLE = NamedSet(
    "scanned",
    "scans of 38 household objects (Google Scanned Objects, CC BY 4.0): which one is it? 1,520 train / 190 test; no download",
    embedded=_clouds(0.0),
)
PARTIAL = NamedSet(
    "scanned-cut",
    "the same objects with 20 % of the surface cut away by a plane (train: up to 20 %)",
    embedded=_clouds(CUT),
)
