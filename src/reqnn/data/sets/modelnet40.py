"""ModelNet40: 12,311 CAD models of 40 kinds of objects (Wu et al., 3D ShapeNets, CVPR 2015)."""

from __future__ import annotations

from reqnn.data.sets.base import NamedSet

FOLDERS = (
    "modelnet40_ply_hdf5_2048",
    "modelnet40_ply_hdf5_1024",
    "modelnet40_normal_resampled",
    "ModelNet40",
    "modelnet40",
)

SET = NamedSet(
    "modelnet40",
    "ModelNet40: CAD models, 40 classes, 9,843 train / 2,468 test",
    FOLDERS,
    "ModelNet40 is published for academic research at https://modelnet.cs.princeton.edu (ModelNet40.zip: OFF meshes). "
    "The HDF5 files of 2,048 points that most papers use are PointNet's modelnet40_ply_hdf5_2048.zip "
    "(https://shapenet.cs.stanford.edu/media/modelnet40_ply_hdf5_2048.zip); with normals: modelnet40_normal_resampled.zip, "
    "linked from https://github.com/charlesq34/pointnet2.",
)
