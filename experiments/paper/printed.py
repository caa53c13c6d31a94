"""The tables of the paper, for comparison with the measured values."""

from __future__ import annotations

YES, NO, UNRELATED = "✓", "×", "–"

TABLE1: dict[str, tuple[str, str]] = {
    "Convolution": (NO, UNRELATED),
    "ReLU": (NO, UNRELATED),
    "Batch-normalization": (NO, UNRELATED),
    "Max-pooling": (NO, UNRELATED),
    "Dropout": (NO, UNRELATED),
    "Farthest point sampling": (YES, NO),
    "Grouping (k-NN)": (YES, YES),
    "Grouping (ball query)": (YES, NO),
    "Density estimation": (YES, YES),
    "3D coordinates weighting": (NO, YES),
    "Graph construction": (YES, YES),
}
"""Operation → (rotation equivariance, permutation invariance) of the original operation."""

TABLE2: dict[str, dict[str, tuple[str, str]]] = {
    "PointNet++": {"original": ("1.48", "0.87"), "REQNN": ("1.47", "2.51")},
    "DGCNN": {"original": ("2.86", "3.53"), "REQNN": ("2.86", "8.24")},
    "PointConv": {"original": ("19.57", "1.44"), "REQNN": ("20.61", "4.22")},
    "PointNet": {"original": ("0.29", "0.30"), "REQNN": ("0.28", "0.88")},
}
"""Network → (parameters in millions, FLOPs in billions), as printed."""

NETWORKS = ("PointNet++", "DGCNN", "PointConv", "PointNet")

TABLE3: dict[str, tuple[str, ...]] = {
    "Convolution": NETWORKS,
    "ReLU": NETWORKS,
    "Batch-normalization": NETWORKS,
    "Max-pooling": ("PointNet++", "DGCNN", "PointNet"),
    "Dropout": NETWORKS,
    "Farthest point sampling": ("PointNet++", "PointConv"),
    "Grouping (k-NN)": ("DGCNN", "PointConv"),
    "Grouping (ball query)": ("PointNet++",),
    "Density estimation": ("PointConv",),
    "3D coordinates weighting": ("PointConv",),
    "Graph construction": ("DGCNN",),
}
"""Operation → the networks that contain it."""

TABLE4: dict[str, dict[str, dict[str, str]]] = {
    "modelnet40": {
        "pointnet2": {"original": "23.57", "vertical": "26.43", "reqnn": "63.95"},
        "dgcnn": {"original": "30.05", "vertical": "31.34", "reqnn": "83.03"},
        "pointconv": {"original": "21.93", "vertical": "23.72", "reqnn": "78.14"},
    },
    "3d-mnist": {
        "pointnet2": {"original": "44.15", "vertical": "51.16", "reqnn": "68.99"},
        "dgcnn": {"original": "45.37", "vertical": "49.25", "reqnn": "82.09"},
        "pointconv": {"original": "44.63", "vertical": "50.95", "reqnn": "78.59"},
    },
}
"""Data set → network → training → accuracy in per cent, test shapes rotated arbitrarily."""

TABLE4_CORRECTED: dict[str, dict[str, dict[str, str]]] = {
    "modelnet40": {
        "pointnet2": {"original": "25.87", "vertical": "29.25", "reqnn": "62.03"},
        "dgcnn": {"original": "32.08", "vertical": "33.78", "reqnn": "84.57"},
        "pointconv": {"original": "25.01", "vertical": "26.46", "reqnn": "81.93"},
    },
    "3d-mnist": {
        "pointnet2": {"original": "44.19", "vertical": "51.48", "reqnn": "72.01"},
        "dgcnn": {"original": "45.90", "vertical": "50.00", "reqnn": "84.57"},
        "pointconv": {"original": "45.51", "vertical": "48.08", "reqnn": "85.71"},
    },
}
"""The same as its authors corrected it after publication."""

TABLE5: dict[str, tuple[str, str]] = {
    "PointNet": ("88.45", "12.47"),
    "PointNet++": ("89.82", "21.35"),
    "Point2Sequence": ("92.60", "10.53"),
    "KD-Network": ("86.20", "8.49"),
    "RS-CNN": ("92.38", "22.49"),
    "DGCNN": ("92.90", "29.74"),
    "PRIN": ("80.13", "68.85"),
    "QE-Capsule network": ("74.73", "74.07"),
    "REQNN of DGCNN": ("83.03", "83.03"),
}
"""Method → accuracy on ModelNet40 in per cent, learned without rotations: tested without (NR/NR), tested with (NR/AR)."""
