"""The data sets that are known by name; to add one, add an entry to `SETS`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reqnn.data.dataset import PointClouds
from reqnn.data.digits import digits
from reqnn.data.layout import NamedSet, Request, check_split
from reqnn.data.scanned import scanned

DIGITS = tuple("0123456789")
PARTS = {
    "Airplane": 4, "Bag": 2, "Cap": 2, "Car": 4, "Chair": 4, "Earphone": 3, "Guitar": 3, "Knife": 2, "Lamp": 4, "Laptop": 2,
    "Motorbike": 6, "Mug": 2, "Pistol": 3, "Rocket": 3, "Skateboard": 3, "Table": 3,
}  # fmt: skip
TEN = ("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet")


def _digits(request: Request) -> PointClouds:
    check_split(request)
    points, labels = digits(request.split, request.points)
    return PointClouds(points, labels, DIGITS, request.known.name, request.split, request.up or "y")


def _scanned(request: Request, cut: float = 0.0) -> PointClouds:
    choice: dict[str, Any] = {"sampling": request.sampling, "short": request.short}
    choice["normalize"] = request.normalize is not False
    found = scanned(request.split, request.points, request.seed, cut=cut, **choice)
    return replace(found, name=request.known.name, up=request.up or found.up)


MODELNET40 = NamedSet(
    "modelnet40",
    "ModelNet40: CAD models, 40 classes, 9,843 train / 2,468 test",
    ("modelnet40_ply_hdf5_2048", "modelnet40_ply_hdf5_1024", "modelnet40_normal_resampled", "ModelNet40", "modelnet40"),
    "ModelNet40 is published for academic research at https://modelnet.cs.princeton.edu (ModelNet40.zip: OFF meshes). "
    "The HDF5 files of 2,048 points that most papers use are PointNet's modelnet40_ply_hdf5_2048.zip "
    "(https://shapenet.cs.stanford.edu/media/modelnet40_ply_hdf5_2048.zip); with normals: modelnet40_normal_resampled.zip, "
    "linked from https://github.com/charlesq34/pointnet2.",
)
SHAPENET_FOLDERS = (
    "hdf5_data",
    "shapenet_part_seg_hdf5_data",
    "shapenet_part_seg_hdf5_1024",
    "shapenetcore_partanno_segmentation_benchmark_v0_normal",
    "shapenetcore_partanno_segmentation_benchmark_v0",
    "shapenet",
)
SHAPENET = (
    "ShapeNet is published for non-commercial research at https://shapenet.org (an account is needed); its part annotation "
    "benchmark as HDF5 files is PointNet's https://shapenet.cs.stanford.edu/media/shapenet_part_seg_hdf5_data.zip, as text "
    "files with normals https://shapenet.cs.stanford.edu/media/shapenetcore_partanno_segmentation_benchmark_v0_normal.zip."
)
_ALL = (
    NamedSet(
        "digits",
        "handwritten digits of scikit-learn, raised into space, 10 classes, 1,437 train / 360 test; no download",
        embedded=_digits,
    ),
    NamedSet(
        "scanned",
        "scans of 38 household objects (Google Scanned Objects, CC BY 4.0): which one is it? 1,520 train / 190 test",
        embedded=_scanned,
    ),
    NamedSet(
        "scanned-cut",
        "the same objects with 20 % of the surface cut away by a plane (train: up to 20 %)",
        embedded=lambda request: _scanned(request, 0.2),
    ),
    MODELNET40,
    NamedSet(
        "modelnet10",
        "ModelNet10: CAD models, 10 classes, 3,991 train / 908 test; the classes of ModelNet40 if only that is there",
        ("ModelNet10", "modelnet10", *MODELNET40.folders),
        "ModelNet10 is published for academic research at https://modelnet.cs.princeton.edu (ModelNet10.zip: OFF meshes, "
        "aligned by hand). Any form of ModelNet40 works too: its ten classes are taken, perhaps aligned differently.",
        only=TEN,
    ),
    NamedSet(
        "3d-mnist",
        "3D MNIST: MNIST's digits extruded, 10 classes, 5,000 train / 1,000 test",
        ("3d_mnist", "3d-mnist", "3dmnist"),
        "3D MNIST is published at https://www.kaggle.com/datasets/daavoo/3d-mnist (train_point_clouds.h5, "
        "test_point_clouds.h5; an account is needed). Without one, build it from MNIST's own files: `reqnn data download "
        "mnist` and `reqnn data make 3d-mnist --from MNIST_FOLDER`.",
        classes=DIGITS,
        up="z",
    ),
    NamedSet(
        "shapenet-part",
        "ShapeNet part with the part of each point: 50 parts of 16 classes, with train, val and test splits",
        SHAPENET_FOLDERS,
        SHAPENET,
        parts=PARTS,
        validation=True,
    ),
    NamedSet(
        "shapenet",
        "ShapeNet part: clouds of 16 classes, with train, val and test splits",
        SHAPENET_FOLDERS,
        SHAPENET,
    ),
    NamedSet(
        "scanobjectnn",
        "ScanObjectNN: scans of real objects, 15 classes; several variants",
        ("ScanObjectNN", "scanobjectnn", "h5_files"),
        "ScanObjectNN is published at https://hkust-vgd.github.io/scanobjectnn (h5_files.zip; fill in a form first).",
    ),
)
SETS: dict[str, NamedSet] = {known.name: known for known in _ALL}
