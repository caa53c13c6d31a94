import numpy as np
import pytest

from reqnn.data.sampling import check_sampling, choose_points, normalise, stream
from reqnn.errors import InputError


def test_values_are_fixed():
    """Numbers that published results depend on; a change here is a new choice of points."""
    assert choose_points(10, 4, seed=0, index=0, where="").tolist() == [0, 1, 2, 9]
    assert choose_points(10, 4, seed=1, index=0, where="").tolist() == [2, 3, 5, 9]
    assert stream("rotation", 3, 5).random(2).tolist() == [0.8829192489202217, 0.6892781601797926]


def test_all_some_and_the_first():
    assert choose_points(6, 6, 0, 0, "").tolist() == [0, 1, 2, 3, 4, 5]
    some = choose_points(100, 40, 0, 0, "")
    assert len(set(some.tolist())) == 40
    assert (np.diff(some) > 0).all()
    assert choose_points(100, 4, 0, 0, "", sampling="first").tolist() == [0, 1, 2, 3]


def test_choices_are_uniform_and_differ_between_clouds():
    counts = sum(np.bincount(choose_points(20, 5, 0, index, ""), minlength=20) for index in range(4000))
    assert abs(counts - 1000).max() < 4.5 * np.sqrt(4000 * 0.25 * 0.75)


def test_too_few_points():
    with pytest.raises(InputError, match=r"cup\.off holds 3 points; 8 are asked for.*short='repeat'"):
        choose_points(3, 8, 0, 0, "cup.off")
    repeated = choose_points(3, 8, 0, 0, "cup.off", short="repeat")
    assert sorted(np.bincount(repeated).tolist()) == [2, 3, 3]
    with pytest.raises(InputError, match="no points"):
        choose_points(0, 8, 0, 0, "cup.off", short="repeat")
    with pytest.raises(InputError, match="at least 1"):
        choose_points(3, 0, 0, 0, "cup.off")


def test_normalise():
    cloud = np.random.default_rng(0).normal(size=(50, 3)) * 1e4 + 1e6
    found = normalise(cloud, "")
    assert found.dtype == np.float32
    assert np.abs(found.mean(0)).max() < 1e-6
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("cloud", [np.ones((1, 3)), np.ones((7, 3)) * 1e5])
def test_points_in_one_place_have_no_size(cloud):
    with pytest.raises(InputError, match=r"cup: its \d points coincide"):
        normalise(cloud, "cup")


@pytest.mark.parametrize(
    "settings",
    [
        ("some", "error", 4, 0),
        ("random", "pad", 4, 0),
        ("random", "error", 0, 0),
        ("random", "error", 4, -1),
        ("random", "error", 4, 2**64),
    ],
)
def test_unknown_settings(settings):
    with pytest.raises(InputError):
        check_sampling(*settings)


def test_streams_are_apart():
    first = stream("sampling", 0, 0).random(8)
    others = [stream("rotation", 0, 0), stream("sampling", 1, 0), stream("sampling", 0, 1), stream("split", 0)]
    assert not any(np.intersect1d(first, other.random(8)).size for other in others)
    assert np.array_equal(first, stream("sampling", 0).random(8))
