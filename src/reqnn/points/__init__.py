"""Operations on point clouds whose choices depend neither on the orientation of a cloud nor on the order of its points.

All take plain tensors or `reqnn.tensor.QuaternionTensor`s, and raise `reqnn.errors.InputError` with advice.
"""

from reqnn.points._coordinates import as_coordinates
from reqnn.points.ball_query import ball_query
from reqnn.points.cloud_batch import CloudBatch, collate
from reqnn.points.density import density
from reqnn.points.farthest_point_sample import farthest_point_sample
from reqnn.points.knn import count_ties, knn
from reqnn.points.outliers import inliers
from reqnn.points.principal_frame import degenerate_axes, frame_ambiguity, principal_frame, right_handed_frames

__all__ = [
    "CloudBatch",
    "as_coordinates",
    "ball_query",
    "collate",
    "count_ties",
    "degenerate_axes",
    "density",
    "farthest_point_sample",
    "frame_ambiguity",
    "inliers",
    "knn",
    "principal_frame",
    "right_handed_frames",
]
