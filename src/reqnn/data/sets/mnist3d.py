"""3D MNIST: handwritten digits of MNIST, extruded (David de la Iglesia Castro, Kaggle 2016)."""

from __future__ import annotations

from reqnn.data.sets.base import NamedSet

SET = NamedSet(
    "3d-mnist",
    "3D MNIST: MNIST's digits extruded, 10 classes, 5,000 train / 1,000 test",
    ("3d_mnist", "3d-mnist", "3dmnist"),
    "3D MNIST is published at https://www.kaggle.com/datasets/daavoo/3d-mnist (train_point_clouds.h5, test_point_clouds.h5; an "
    "account is needed). Without one, build it from MNIST's own files: `reqnn data download mnist` and "
    "`reqnn data make 3d-mnist --from MNIST_FOLDER`.",
    classes=tuple("0123456789"),
    up="z",
)
