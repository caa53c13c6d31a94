"""ModelNet10: the ten classes of ModelNet that were aligned by hand (Wu et al., 3D ShapeNets, CVPR 2015)."""

from __future__ import annotations

from reqnn.data.sets import modelnet40
from reqnn.data.sets.base import NamedSet

CLASSES = ("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet")

SET = NamedSet(
    "modelnet10",
    "ModelNet10: CAD models, 10 classes, 3,991 train / 908 test; the classes of ModelNet40 where only that is there",
    ("ModelNet10", "modelnet10", *modelnet40.FOLDERS),
    "ModelNet10 is published for academic research at https://modelnet.cs.princeton.edu (ModelNet10.zip: OFF meshes, aligned "
    "by hand). Any form of ModelNet40 serves as well: its ten classes are taken, whose meshes may be aligned differently.",
    only=CLASSES,
)
