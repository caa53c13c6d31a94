"""ScanObjectNN: scans of real objects, 15 classes (Uy et al., ICCV 2019)."""

from __future__ import annotations

from reqnn.data.sets.base import NamedSet

SET = NamedSet(
    "scanobjectnn",
    "ScanObjectNN: scans of real objects, 15 classes; several variants",
    ("ScanObjectNN", "scanobjectnn", "h5_files"),
    "ScanObjectNN is published at https://hkust-vgd.github.io/scanobjectnn (h5_files.zip, after a form on its terms of use).",
)
