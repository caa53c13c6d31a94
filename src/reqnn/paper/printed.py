"""What the paper prints: Tables 1, 2 and 3, typed in once, to be compared with what is measured."""

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
