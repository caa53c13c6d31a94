"""Answers side by side, and features that rotate with the object."""

import pytest
import torch

import reqnn
from reqnn import quaternion
from reqnn.commands.view import NETWORKS, sort_words
from reqnn.view.comparison import Comparison
from reqnn.view.features import point_features
from reqnn.view.page import bars
from reqnn.view.shown import Shown, scanned_object

ROTATIONS = quaternion.random_matrix(6, torch.Generator().manual_seed(0), torch.float64)


@pytest.fixture(scope="module")
def comparison():
    return Comparison(NETWORKS)


@pytest.fixture(scope="module")
def lion(comparison):
    return scanned_object("lion", comparison.points)


def test_both_recognise_it_upright_and_only_the_revised_one_rotated(comparison, lion):
    for answer in comparison.answers(lion):
        assert answer.top[0][0] == "lion"
        assert (answer.right, answer.kept, answer.change) == (True, True, 0.0)
    rotated = [comparison.answers(lion.rotated(rotation)) for rotation in ROTATIONS]
    assert all(revised.right and revised.kept and revised.change < 1e-4 for _, revised in rotated)
    assert sum(ordinary.kept for ordinary, _ in rotated) <= 2  # the negative control
    assert max(ordinary.change for ordinary, _ in rotated) > 0.5
    assert [answer.network for answer in rotated[0]] == ["ordinary dgcnn", "REQNN of dgcnn"]


def test_shuffled_and_dropped_points(comparison, lion):
    torch.manual_seed(0)
    _, shuffled = comparison.answers(lion.rotated(ROTATIONS[0]).shuffled())
    assert shuffled.kept
    assert shuffled.change < 1e-6
    _, dropped = comparison.answers(lion.rotated(ROTATIONS[0]).without(0.3))
    assert dropped.right
    assert 1e-5 < dropped.change < 0.9  # the networks did get other points
    few = lion.without(0.9)
    assert all("sample = 128" in answer.error and not answer.top for answer in comparison.answers(few))


def test_an_object_that_nobody_knows_is_compared_with_itself(comparison, lion):
    unknown = Shown("mine.ply", lion.points)
    assert [answer.right for answer in comparison.answers(unknown)] == [None, None]
    assert comparison.answers(unknown.rotated(ROTATIONS[0]))[1].kept


def test_the_arrows_rotate_with_the_object(comparison, lion):
    layers = comparison.layers(lion)
    assert next(iter(layers)) == "dgcnn.full.scanned: conv4"
    upright = comparison.arrows(lion, layers["dgcnn.full.scanned: conv2"])
    rotated = comparison.arrows(lion.rotated(ROTATIONS[0]).shuffled(), layers["dgcnn.full.scanned: conv2"])
    assert upright.segments.shape == (128, 2, 3)
    assert rotated.deviation < 1e-4
    torch.testing.assert_close(upright.segments, rotated.segments, atol=1e-4, rtol=0)  # in the frame of the object
    nearest = torch.cdist(upright.segments[:, 0].double(), lion.points.double()).amin(1)
    assert nearest.max() < 1e-6  # they start at points of the cloud
    lengths = (upright.segments[:, 1] - upright.segments[:, 0]).norm(dim=-1)
    assert 0.1 < lengths.max() < 1


def test_features_that_do_not_rotate_are_seen(comparison, lion):
    """The deviation that the page shows can be large: here a constant vector is added to each."""
    net = comparison.networks["dgcnn.full.scanned"]
    layer = net.model.conv2
    spoil = layer.register_forward_hook(lambda _, args, out: out.same(out.components + 0.3))
    try:
        assert comparison.arrows(lion.rotated(ROTATIONS[0]), ("dgcnn.full.scanned", "conv2")).deviation > 0.01
    finally:
        spoil.remove()


@pytest.mark.parametrize(
    ("name", "options", "layer", "count"), [("pointnet2", {"npoint": (64, 16)}, "sa1", 64), ("pointnet", {}, "conv2", 128)]
)
def test_features_of_other_networks_are_found_at_their_points(name, options, layer, count):
    net = reqnn.create_model(name, True, 5, rules="full", **options).eval().double()
    cloud = scanned_object("hammer", 128).points[None].double()
    places, vectors = point_features(net, cloud)[layer]
    assert places.shape == (count, 3)
    assert vectors.shape[1:] == (count, 3)
    assert torch.cdist(places, cloud[0]).amin(1).max() < 1e-12
    again = point_features(net, cloud @ ROTATIONS[0].T)[layer]
    torch.testing.assert_close(again[1], vectors @ ROTATIONS[0].T, atol=1e-9, rtol=0)


def test_names_are_escaped(comparison, lion):
    page = bars(Shown("<script>alert(1)</script>.ply", lion.points), comparison.answers(lion))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_words_are_networks_or_files(tmp_path):
    run, shapes = tmp_path / "demo" / "runs" / "full", tmp_path / "shapes"
    for folder in (run, shapes):
        folder.mkdir(parents=True)
    (run / "best.safetensors").touch()
    words = ["dgcnn.full.scanned", str(tmp_path / "demo"), str(shapes), "missing.ply", "best.safetensors", "no-name"]
    assert sort_words(words) == (
        ["dgcnn.full.scanned", str(run), "best.safetensors", "no-name"],
        [str(shapes), "missing.ply"],
    )
