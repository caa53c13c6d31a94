# mypy: disallow-untyped-defs=False
"""Neighbour search in feature space: candidates from rows of approximate squared distances, then the tie rule."""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.points.kernels.tie_rule import CHUNK, DONE, OPEN, UNCLEAR, WIDEST, insert, resolve

CLASSES = 128  # of the entries of a row, for a quick look at its smallest


@compiled(fastmath={"reassoc", "contract"})
def _square_distance(a, b):
    total = 0.0
    for i in range(a.size):
        d = np.float64(a[i]) - np.float64(b[i])
        total += d * d
    return total


@compiled
def _threshold(values, width, least):
    """A number that at least `width` of the values do not exceed, and few more: about the width-th of the minima of classes.

    Class c holds the values c, c + 128, …; what is left over at the end belongs to none.
    """
    classes = least.size
    for c in range(classes):
        least[c] = values[c]
    for start in range(classes, values.size - classes + 1, classes):
        part = values[start : start + classes]
        for c in range(classes):
            least[c] = part[c] if part[c] < least[c] else least[c]
    low, high = least.min(), least.max()
    for _ in range(12):  # halve the range in which the width-th lies: counting is quicker than sorting
        middle = low + (high - low) * values.dtype.type(0.5)
        count = 0
        for c in range(classes):
            count += least[c] <= middle
        if count >= width:
            high = middle
            if count == width:
                break
        else:
            low = middle
    return high


@compiled
def _up_to(values, threshold, least, index):
    """Indices of the values up to a threshold, by classes; how many, or -1 if `index` is too short."""
    count, classes = 0, least.size
    whole = values.size - values.size % classes
    for c in range(classes):
        if least[c] <= threshold:
            for j in range(c, whole, classes):
                if values[j] <= threshold:
                    if count == index.size:
                        return -1
                    index[count] = j
                    count += 1
    for j in range(whole, values.size):
        if values[j] <= threshold:
            if count == index.size:
                return -1
            index[count] = j
            count += 1
    return count


@compiled
def _smallest(values, width, value, index):
    """The `width` smallest values, with their indices; return the largest of them."""
    count = 0
    for j in range(values.size):
        if count < width or values[j] < value[width - 1]:
            count = insert(values[j], j, value, index, count, width)
    return value[width - 1]


@compiled
def _ask_rows(length, reach, error, product, square, xyz, query, rank, tolerance, rel, floor,
              found, status, candidates, beyond, first, last):  # fmt: skip
    """`search_rows` for queries `first` … `last` - 1 of all B·M."""
    k, narrow, total = found.shape[2], candidates.shape[2], xyz.shape[1]
    value, index, distance = np.empty(WIDEST, square.dtype), np.empty(WIDEST, np.int64), np.empty(WIDEST)
    values, two = np.empty(total, square.dtype), square.dtype.type(2)
    other, least = np.empty(WIDEST, np.int64), np.empty(CLASSES, square.dtype)
    for row in range(first, last):
        b, m = row // query.shape[1], row % query.shape[1]
        for j in range(total):
            values[j] = square[b, j] - two * product[b, m, j]
        width = narrow
        while True:
            many = -1
            if width == narrow and 2 * width <= CLASSES and total >= 2 * CLASSES:
                worst = _threshold(values, width, least)
                many = _up_to(values, worst, least, index)
            if many < 0:
                worst = _smallest(values, width, value, index)
                many = width
            rest = np.inf
            if many < total:
                rest = worst + length[b, m] ** 2 - error * (length[b, m] + reach[b]) ** 2
                rest = np.sqrt(max(rest, 0.0))
            count = 0
            for i in range(many):
                d = np.sqrt(_square_distance(query[b, m], xyz[b, index[i]]))
                if count < width or d < distance[width - 1]:
                    count = insert(d, index[i], distance, other, count, width)
            if many > width:
                rest = min(rest, distance[width - 1])
            if width == narrow:
                beyond[b, m] = rest
                for i in range(width):
                    candidates[b, m, i] = other[i]
            state = resolve(distance, other, width, rest, xyz[b], rank[b], tolerance[b], rel, floor, k)
            if state == OPEN and width < min(total, WIDEST):
                width = min(4 * width, total, WIDEST)
                continue
            if state == DONE:
                for i in range(k):
                    found[b, m, i] = other[i]
            status[b, m] = state if state != UNCLEAR or width == narrow else OPEN
            break


@loop()
def search_rows(length, reach, error, product, square, xyz, query, rank, tolerance, rel, floor,
                found, status, candidates, beyond):  # fmt: skip
    """As `reqnn.points.kernels.trees.search_trees`, from products ⟨q, x⟩ (B, M, N) and squares ‖x‖² (B, N), both centred.

    With their norms ‖q‖, length (B, M), they give ‖q - x‖² to within error·(‖q‖ + reach)², reach (B,) the largest ‖x‖.
    """
    rows = status.size
    for task in prange((rows + CHUNK - 1) // CHUNK):
        _ask_rows(length, reach, error, product, square, xyz, query, rank, tolerance, rel, floor,
                  found, status, candidates, beyond, task * CHUNK, min(rows, (task + 1) * CHUNK))  # fmt: skip
