"""The networks that the paper revises, for part segmentation too, and an autoencoder: each written once, and built by name."""

from .autoencoder import Autoencoder
from .dgcnn import DGCNN
from .hierarchical_edgeconv import HierarchicalEdgeConv
from .part_segmentation import DGCNNParts, PointNet2Parts, PointNetParts
from .pointconv import PointConv
from .pointnet import PointNet, PointNetReconstruction
from .pointnet2 import PointNet2, PointNet2MSG
from .registry import build_model, list_models, register

__all__ = [
    "DGCNN",
    "Autoencoder",
    "DGCNNParts",
    "HierarchicalEdgeConv",
    "PointConv",
    "PointNet",
    "PointNet2",
    "PointNet2MSG",
    "PointNet2Parts",
    "PointNetParts",
    "PointNetReconstruction",
    "build_model",
    "list_models",
    "register",
]
