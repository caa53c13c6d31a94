"""`relative_error` compares piece by piece what would not fit into a cache."""

import math

import pytest
import torch

from reqnn.revision import compare
from reqnn.revision.compare import relative_error

LARGE = (3, 5, 70, 301)  # more entries than one piece has


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
@pytest.mark.parametrize("place", [(0, 0, 0, 0), (2, 4, 69, 300), (1, 2, 3, 4)])
def test_one_entry_decides_wherever_it_is(order, place):
    expected = torch.randn(LARGE, dtype=torch.float64)
    value = (
        expected.permute(order).clone(memory_format=torch.contiguous_format).permute([order.index(axis) for axis in range(4)])
    )  # other strides
    assert expected.numel() > compare._PIECE
    assert relative_error(value, expected, 1.0) == 0
    value[place] -= 7
    assert relative_error(value, expected, 2.0) == pytest.approx(3.5)


def test_equal_infinities_agree_and_nan_with_nothing():
    infinite, other = torch.ones(LARGE), torch.ones(LARGE)
    infinite[2, 4, 69, 300] = other[2, 4, 69, 300] = math.inf
    assert relative_error(infinite, other, 1.0) == 0
    other[0, 0, 0, 0] = math.nan
    assert relative_error(infinite, other, 1.0) == math.inf
    assert relative_error(other, other, 1.0) == math.inf
