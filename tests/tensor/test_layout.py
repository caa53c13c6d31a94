"""Layouts: entries, sections and reshapes against plain tensors whose elements say where they came from."""

from itertools import product
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor, from_real
from reqnn.tensor import layout as lay

layouts = st.text("vfs", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("layout", "width", "starts", "vectors"),
    [
        ("v", 3, [0], True),
        ("vvs", 7, [0, 3, 6], True),
        ("fff", 3, [0, 1, 2], False),
        ("if", 4, [0, 3], True),
        ("", 0, [], False),
    ],
)
def test_width_and_starts(layout, width, starts, vectors):
    assert lay.width(layout) == width
    assert lay.starts(layout) == starts
    assert lay.has_vectors(layout) is vectors


@given(layouts)
def test_all_channels_are_all_entries(layout):
    assert lay.entries(layout, range(lay.width(layout))) == list(range(len(layout)))
    for start, end in zip(lay.starts(layout), [*lay.starts(layout)[1:], lay.width(layout)], strict=True):
        assert lay.entries(layout, range(start, end)) == [lay.starts(layout).index(start)]


@given(layouts, st.data())
def test_entries_takes_whole_vectors_only(layout, data):
    total = lay.width(layout)
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    edges = {*lay.starts(layout), total}
    if start in edges and stop in edges:
        chosen = lay.entries(layout, range(start, stop))
        assert lay.width("".join(layout[i] for i in chosen)) == stop - start
    elif start < stop:
        with pytest.raises(NoRuleError, match="cuts a vector"):
            lay.entries(layout, range(start, stop))


@pytest.mark.parametrize("channels", [[0], [1, 2, 3], [2, 1, 0], [0, 2], [0, 1, 2, 3], [0, 0, 0]])
def test_entries_that_cut_a_vector(channels):
    with pytest.raises(NoRuleError, match="cuts a vector"):
        lay.entries("vvf", channels)


def test_entries_in_another_order():
    assert lay.entries("vvf", [3, 4, 5, 0, 1, 2, 6, 0, 1, 2]) == [1, 0, 2, 0]
    assert lay.entries("vvf", []) == []


def test_interleaved_vectors_have_no_channels_of_their_own():
    with pytest.raises(NoRuleError):
        lay.entries("if", [0, 1, 2])
    assert lay.entries("if", [3]) == [1]


def test_split_sizes():
    assert lay.split_sizes("vvfs", [6, 1, 1]) == [2, 1, 1]
    assert lay.split_sizes("vvfs", [3, 5]) == [1, 3]
    assert lay.split_sizes("vv", [0, 6]) == [0, 2]
    with pytest.raises(NoRuleError):
        lay.split_sizes("vv", [2, 4])


def test_describe_counts_runs():
    assert lay.describe("vvf") == "vector (3 channels) ×2 + feature ×1"
    assert "scalar ×2" in lay.describe("vss")


@pytest.mark.parametrize(("shape", "numel", "expected"), [((2, -1), 6, [2, 3]), ((-1,), 4, [4]), ((3, 2), 6, [3, 2])])
def test_resolve(shape, numel, expected):
    assert lay.resolve(shape, numel) == expected


@pytest.mark.parametrize(
    ("user", "axis", "layout", "shape", "expected"),
    [
        ((2, 5, 3), 2, "v", (10, 3), ([10, 1], 1, "v")),
        ((2, 5, 3), 2, "v", (2, 1, 5, 3), ([2, 1, 5, 1], 3, "v")),
        ((2, 5, 3), 2, "v", (2, 15), ([2, 5], 1, "vvvvv")),
        ((2, 6), 1, "vv", (2, 2, 3), ([2, 2, 1], 2, "v")),
        ((2, 6), 1, "vv", (4, 3), ([4, 1], 1, "v")),
        ((2, 6, 5), 1, "vv", (12, 5), ([4, 5], 0, "vvvv")),
        ((2, 3), 1, "v", (2, 3, 1), ([2, 1, 1], 1, "v")),
        ((2, 3, 1, 1), 1, "v", (2, 3), ([2, 1], 1, "v")),
        ((2, 3), 1, "v", (6,), ([2], 0, "vv")),
        ((2, 3, 4), 1, "v", (6, 2, 2), ([2, 2, 2], 0, "vv")),
        ((2, 5, 4), 2, "vs", (10, 4), ([10, 2], 1, "vs")),
        ((2, 5, 4), 2, "vs", (2, 20), ([2, 10], 1, "vs" * 5)),
        ((2, 3, 5), 1, "v", (2, 15), ([2, 5], 1, "i" * 5)),
        ((2, 4, 5), 1, "vf", (2, 20), ([2, 10], 1, "i" * 5 + "f" * 5)),
    ],
)
def test_reshape(user, axis, layout, shape, expected):
    assert lay.reshape(user, axis, layout, shape) == expected


@pytest.mark.parametrize(
    ("user", "axis", "layout", "shape"),
    [
        ((2, 6), 1, "vv", (2, 3, 2)),
        ((4, 3), 1, "v", (6, 2)),
        ((2, 3, 4), 1, "v", (2, 4, 3)),
        ((3, 4), 1, "vs", (4, 3)),
        ((2, 5, 1), 2, "s", (2, 5)),
    ],
)
def test_reshape_that_cuts_vectors(user, axis, layout, shape):
    with pytest.raises(NoRuleError):
        lay.reshape(user, axis, layout, shape)


def factorisations(number, most=4):
    """Every shape of up to `most` axes with that many elements."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    return [s for rank in range(1, most + 1) for s in product(divisors, repeat=rank) if prod(s) == number]


SHAPES = {number: factorisations(number) for number in (3, 6, 9, 12, 18, 36)}


@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_a_reshape_is_right_or_refused(number, data):
    """Whatever the shapes: where the reshape is followed, the coordinates are those of the plain reshape."""
    user = data.draw(st.sampled_from([s for s in SHAPES[number] if any(n % 3 == 0 for n in s)]))
    axis = data.draw(st.sampled_from([i for i, n in enumerate(user) if n % 3 == 0]))
    shape = data.draw(st.sampled_from(SHAPES[number]))
    real = torch.arange(float(number)).view(user)
    try:
        x = from_real(real, axis).reshape(shape)
    except NoRuleError:
        last = next(n for n in reversed(shape) if n != 1)
        side_by_side = all(n == 1 for n in user[axis + 1 :])
        assert not side_by_side or last % 3  # coordinates in the last axis are followed whenever none is cut
        return
    assert tuple(x.shape) == shape
    if "i" not in x.vectors:
        assert torch.equal(x.as_real(), real.view(shape))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2))
def test_scalars_and_vectors_flatten_together(batch, points, scalars, vectors):
    channels = 3 * (vectors + 1) + scalars
    real = torch.arange(float(batch * points * channels)).view(batch, points, channels)
    x = from_real(real, 2, scalars=scalars)
    assert torch.equal(x.reshape(batch * points, channels).as_real(), real.view(batch * points, channels))
    assert torch.equal(x.flatten(1).as_real(), real.flatten(1))
    assert torch.equal(x.flatten(1).view(batch, points, channels).as_real(), real)


def test_features_need_no_layout():
    assert QuaternionTensor(torch.zeros(3, 2, 4), 1, "ffff").axis is None
