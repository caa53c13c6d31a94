import pytest
import torch

from reqnn.data import PointClouds
from reqnn.errors import InputError

POINTS = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 1, 0])


def make(**changes):
    return PointClouds(**{"points": POINTS, "labels": LABELS, "classes": ("a", "b", "c"), "name": "mine", **changes})


def test_items_and_counts():
    found = make()
    assert len(found) == 4
    assert torch.equal(found[2][0], POINTS[2])
    assert found[2][1] == 1
    assert found.counts == {"a": 2, "b": 2, "c": 0}


def test_a_subset_takes_everything_along():
    whole = make(normals=POINTS, groups=torch.tensor([3, 3, 1, 0]))
    part = whole.subset([2, 0], "validation")
    assert torch.equal(part.points, POINTS[[2, 0]])
    assert torch.equal(part.normals, POINTS[[2, 0]])
    assert part.groups.tolist() == [1, 3]
    assert part.split == "validation"
    assert part.classes == whole.classes


def test_the_fingerprint_knows_points_labels_and_order_but_no_names():
    assert make().fingerprint() == make(name="other", split="test").fingerprint()
    moved = POINTS.clone()
    moved[1, 2, 0] += 1e-6
    for other in (make(points=moved), make(labels=1 - LABELS), make().subset([1, 0, 2, 3])):
        assert other.fingerprint() != make().fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": POINTS[..., :2]}, r"mine: clouds have shape \(samples, points, 3\)"),
        ({"points": POINTS.double()}, "float32"),
        ({"points": POINTS.index_fill(0, torch.tensor([2]), torch.nan)}, "cloud 2 holds NaN"),
        ({"points": POINTS.index_fill(0, torch.tensor([1]), torch.inf)}, "cloud 1 holds NaN or inf"),
        ({"labels": LABELS[:3]}, "4 clouds need labels"),
        ({"labels": LABELS.int()}, "int64"),
        ({"labels": LABELS + 2}, "a label is 3; there are 3 classes"),
        ({"labels": LABELS - 1}, "a label is -1"),
        ({"normals": POINTS[:2]}, "normals"),
        ({"groups": LABELS[:2]}, "groups"),
        ({"up": "w"}, "vertical axis"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_no_clouds_at_all():
    assert len(make(points=POINTS[:0], labels=LABELS[:0])) == 0
