"""The embedded set: scikit-learn's handwritten digits, raised into space; needs no download."""

from __future__ import annotations

from reqnn.data.dataset import PointClouds
from reqnn.data.digits import digits
from reqnn.data.layouts.base import Request, check_split
from reqnn.data.sets.base import NamedSet

CLASSES = tuple("0123456789")


def clouds(request: Request) -> PointClouds:
    """The clouds of a split, drawn with the number of points that is asked for; they have a seed of their own."""
    check_split(request)
    points, labels = digits(request.split, request.points)
    return PointClouds(points, labels, CLASSES, request.name, request.split, request.up or "y")


SET = NamedSet(
    "digits",
    "handwritten digits of scikit-learn, raised into space, 10 classes, 1,437 train / 360 test; no download",
    embedded=clouds,
)
