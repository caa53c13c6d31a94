"""ShapeNet's part annotation benchmark, for classification: 16 classes (Yi et al., SIGGRAPH Asia 2016)."""

from __future__ import annotations

from reqnn.data.sets.base import NamedSet

SET = NamedSet(
    "shapenet",
    "ShapeNet part: clouds of 16 classes, with train, val and test splits",
    (
        "hdf5_data",
        "shapenet_part_seg_hdf5_data",
        "shapenetcore_partanno_segmentation_benchmark_v0_normal",
        "shapenetcore_partanno_segmentation_benchmark_v0",
        "shapenet",
    ),
    "ShapeNet is published for research at https://shapenet.org (an account is needed); its part annotation benchmark as HDF5 "
    "files is PointNet's https://shapenet.cs.stanford.edu/media/shapenet_part_seg_hdf5_data.zip, as text files with normals "
    "https://shapenet.cs.stanford.edu/media/shapenetcore_partanno_segmentation_benchmark_v0_normal.zip.",
)
