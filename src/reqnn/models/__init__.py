"""The networks that the paper revises or compares with, and those for parts, normals and clouds; each is built by name."""

from .autoencoder import Autoencoder
from .dgcnn import DGCNN
from .hierarchical_edgeconv import HierarchicalEdgeConv
from .kd_network import KDNetwork
from .normals import WeightedPlaneFit
from .part_segmentation import DGCNNParts, PointNet2Parts, PointNetParts
from .point2sequence import Point2Sequence
from .pointconv import PointConv
from .pointnet import PointNet, PointNetReconstruction
from .pointnet2 import PointNet2, PointNet2MSG
from .prin import PRIN
from .qe_capsule import QECapsule
from .registry import build_model, list_models, register
from .rscnn import RSCNN

__all__ = [
    "DGCNN",
    "PRIN",
    "RSCNN",
    "Autoencoder",
    "DGCNNParts",
    "HierarchicalEdgeConv",
    "KDNetwork",
    "Point2Sequence",
    "PointConv",
    "PointNet",
    "PointNet2",
    "PointNet2MSG",
    "PointNet2Parts",
    "PointNetParts",
    "PointNetReconstruction",
    "QECapsule",
    "WeightedPlaneFit",
    "build_model",
    "list_models",
    "register",
]
