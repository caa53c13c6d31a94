"""The data sets that are known by name, one file each; a new one is a file here and a line in `SETS`."""

from __future__ import annotations

from reqnn.data.sets import embedded_digits, mnist3d, modelnet10, modelnet40, scanned_objects, scanobjectnn, shapenet
from reqnn.data.sets.base import NamedSet

SETS: dict[str, NamedSet] = {
    found.name: found
    for found in (
        embedded_digits.SET,
        scanned_objects.WHOLE,
        scanned_objects.PARTIAL,
        modelnet40.SET,
        modelnet10.SET,
        mnist3d.SET,
        shapenet.SET,
        scanobjectnn.SET,
    )
}

__all__ = ["SETS", "NamedSet"]
