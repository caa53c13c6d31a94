"""The networks that the paper revises or compares with, and those for parts, normals and clouds; each is built by name."""

from .dgcnn import DGCNN as DGCNN
from .kd_network import KDNetwork as KDNetwork
from .normals import WeightedPlaneFit as WeightedPlaneFit
from .part_segmentation import DGCNNParts as DGCNNParts
from .part_segmentation import PointNet2Parts as PointNet2Parts
from .part_segmentation import PointNetParts as PointNetParts
from .point2sequence import Point2Sequence as Point2Sequence
from .pointconv import PointConv as PointConv
from .pointnet import PointNet as PointNet
from .pointnet import PointNetReconstruction as PointNetReconstruction
from .pointnet2 import PointNet2 as PointNet2
from .pointnet2 import PointNet2MSG as PointNet2MSG
from .prin import PRIN as PRIN
from .qe_capsule import QECapsule as QECapsule
from .registry import build_model as build_model
from .registry import list_models as list_models
from .registry import register as register
from .rscnn import RSCNN as RSCNN
