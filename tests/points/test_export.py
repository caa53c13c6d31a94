"""Every operation on points becomes a plain graph that gives the same values, for any batch size."""

import pytest
import torch

from reqnn import points

from .clouds import generic

OPERATIONS = {
    "farthest_point_sample": lambda x: points.farthest_point_sample(x, 5),
    "knn": lambda x: points.knn(x, x, 4),
    "ball_query": lambda x: points.ball_query(x, x, 0.5, 4),
    "density": lambda x: points.density(x, 0.1),
    "principal_frame": points.principal_frame,
    "degenerate_axes": points.degenerate_axes,
    "frame_ambiguity": points.frame_ambiguity,
    "right_handed_frames": points.right_handed_frames,
    "count_ties": lambda x: points.count_ties(x, x, 3),
}


class Operation(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, xyz):
        return self.function(xyz)


@pytest.mark.parametrize("name", OPERATIONS)
def test_export(name):
    module = Operation(OPERATIONS[name])
    batch = torch.export.Dim("batch")
    graph = torch.export.export(module, (generic(0, dtype=torch.float32),), dynamic_shapes=({0: batch},))
    xyz = generic(1, batch=5, dtype=torch.float32)
    torch.testing.assert_close(graph.module()(xyz), module(xyz))  # indices exactly, numbers to rounding


def test_namespace_is_complete():
    assert set(OPERATIONS) | {"CloudBatch", "as_coordinates", "collate", "inliers"} == set(points.__all__)
