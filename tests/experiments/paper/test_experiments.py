"""The cells of Table 4 and how they are named."""

import pytest

from experiments.paper.experiments import Experiment, experiments, select
from experiments.paper.printed import TABLE4, TABLE4_CORRECTED
from reqnn.errors import InputError


def test_all_cells_of_the_paper_are_there_and_the_one_that_counts_comes_first():
    keys = [one.key for one in experiments()]
    assert keys[0] == "modelnet40/dgcnn/reqnn"
    for table in (TABLE4, TABLE4_CORRECTED):
        cells = {
            f"{data}/{network}/{training}" for data in table for network in table[data] for training in table[data][network]
        }
        assert cells == set(keys)
    assert len(keys) == len(set(keys)) == 18


@pytest.mark.parametrize(
    ("patterns", "count"),
    [((), 18), (("modelnet40",), 9), (("3d-mnist/pointconv",), 3), (("*/*/reqnn",), 6), (("*/dgcnn/reqnn", "*/dgcnn"), 6)],
)
def test_patterns(patterns, count):
    assert len(select(patterns)) == count


def test_the_order_is_that_of_the_patterns():
    assert [one.key for one in select(["3d-mnist/dgcnn/original", "modelnet40/dgcnn/reqnn"])] == [
        "3d-mnist/dgcnn/original",
        "modelnet40/dgcnn/reqnn",
    ]


@pytest.mark.parametrize("pattern", ["modelnet", "modelnet40/dgcnn/reqnn/0", "dgcnn", ""])
def test_an_unknown_cell_lists_the_parts(pattern):
    with pytest.raises(InputError, match="DATA/NETWORK/TRAINING with modelnet40, 3d-mnist; dgcnn, pointnet2, pointconv; reqnn"):
        select([pattern])


def test_a_cell_has_a_command():
    one = Experiment("3d-mnist", "pointnet2", "vertical")
    assert (
        one.command("reduced", "out")
        == "python -m experiments paper table4 --budget reduced --only 3d-mnist/pointnet2/vertical --out out"
    )
    assert one.title == "PointNet++ on 3D MNIST: original, vertical rotations"
