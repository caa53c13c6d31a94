# mypy: disallow-untyped-defs=False
"""Neighbour search in up to three dimensions: candidates from a balanced k-d tree, then the tie rule."""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.points.kernels.tie_rule import CHUNK, DONE, OPEN, UNCLEAR, WIDEST, insert, resolve, write

LEAF = 12  # points in a leaf of the tree, at most


@compiled
def _select(x, order, start, stop, middle, axis):
    """Reorder order[start:stop] until order[middle] is where sorting along `axis` would put it (Hoare's quickselect)."""
    left, right = start, stop - 1
    while left < right:
        pivot = x[order[(left + right) // 2], axis]
        i, j = left, right
        while i <= j:
            while x[order[i], axis] < pivot:
                i += 1
            while x[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@compiled
def build_trees(xyz, points, order, start, box):
    """Balanced k-d trees of xyz (B, N, 3): node i has the children 2i + 1 and 2i + 2, and the points start[i:i + 2].

    Fills points (B, N, 3), order (B, N), start (nodes, 2) and box (B, nodes, 6), lower corner then upper.
    """
    nodes = start.shape[0]
    start[0, 0], start[0, 1] = 0, xyz.shape[1]
    for i in range(nodes // 2):
        middle = (start[i, 0] + start[i, 1]) // 2
        start[2 * i + 1, 0], start[2 * i + 1, 1] = start[i, 0], middle
        start[2 * i + 2, 0], start[2 * i + 2, 1] = middle, start[i, 1]
    for b in range(xyz.shape[0]):
        x, place = xyz[b], order[b]
        for j in range(place.size):
            place[j] = j
        for i in range(nodes):
            first, last = start[i, 0], start[i, 1]
            axis = 0
            for a in range(3):
                low = high = x[place[first], a]
                for j in range(first + 1, last):
                    low = min(low, x[place[j], a])
                    high = max(high, x[place[j], a])
                box[b, i, a], box[b, i, 3 + a] = low, high
                if high - low > box[b, i, 3 + axis] - box[b, i, axis]:
                    axis = a
            if i < nodes // 2:
                _select(x, place, first, last, (first + last) // 2, axis)
        for j in range(place.size):
            for a in range(3):
                points[b, j, a] = x[place[j], a]


@compiled
def _to_box(box, i, x, y, z):
    """Squared distance to a box, in the arithmetic of that to a point: rounding cannot make it the larger one."""
    dx = max(max(box[i, 0] - x, x - box[i, 3]), 0.0)
    dy = max(max(box[i, 1] - y, y - box[i, 4]), 0.0)
    dz = max(max(box[i, 2] - z, z - box[i, 5]), 0.0)
    return dx * dx + dy * dy + dz * dz


@compiled
def _search(points, order, start, box, x, y, z, width, square, index, stack, bounds):
    """The `width` points nearest to (x, y, z), ascending, into `square` and `index`."""
    leaves = start.shape[0] // 2
    count = 0
    worst = np.inf
    top = 0
    stack[0] = 0
    bounds[0] = 0.0
    while top >= 0:
        i = stack[top]
        bound = bounds[top]
        top -= 1
        if bound >= worst:
            continue
        if i >= leaves:
            for j in range(start[i, 0], start[i, 1]):
                dx = points[j, 0] - x
                dy = points[j, 1] - y
                dz = points[j, 2] - z
                d = dx * dx + dy * dy + dz * dz
                if d < worst:
                    count = insert(d, order[j], square, index, count, width)
                    if count == width:
                        worst = square[width - 1]
            continue
        near, far = 2 * i + 1, 2 * i + 2
        to_near, to_far = _to_box(box, near, x, y, z), _to_box(box, far, x, y, z)
        if to_far < to_near:
            near, far = far, near
            to_near, to_far = to_far, to_near
        if to_far < worst:
            top += 1
            stack[top] = far
            bounds[top] = to_far
        if to_near < worst:
            top += 1
            stack[top] = near
            bounds[top] = to_near


@compiled
def _ask_trees(points, order, start, box, xyz, query, rank, tolerance, limit, rel, floor,
               found, status, candidates, beyond, first, last):  # fmt: skip
    """`search_trees` for queries `first` … `last` - 1 of all B·M."""
    k, narrow, total = found.shape[2], candidates.shape[2], order.shape[1]
    square, index = np.empty(WIDEST), np.empty(WIDEST, np.int64)
    stack, bounds = np.empty(64, np.int64), np.empty(64)
    for row in range(first, last):
        b, m = row // query.shape[1], row % query.shape[1]
        x, y, z = query[b, m, 0], query[b, m, 1], query[b, m, 2]
        width = narrow
        while True:
            _search(points[b], order[b], start, box[b], x, y, z, width, square, index, stack, bounds)
            for i in range(width):
                square[i] = np.sqrt(square[i])
            rest = square[width - 1] if width < total else np.inf
            if width == narrow:
                beyond[b, m] = rest
                for i in range(width):
                    candidates[b, m, i] = index[i]
            state = resolve(square, index, width, rest, xyz[b], rank[b], tolerance[b], rel, floor, k)
            if state == OPEN and width < min(total, WIDEST):
                width = min(4 * width, total, WIDEST)
                continue
            if state == DONE:
                state = write(square, index, k, limit[b], rel, floor, found[b, m])
            status[b, m] = state if state != UNCLEAR or width == narrow else OPEN
            break


@loop()
def search_trees(points, order, start, box, xyz, query, rank, tolerance, limit, rel, floor,
                 found, status, candidates, beyond):  # fmt: skip
    """Neighbours of all queries: found (B, M, k) and status (B, M).

    Where that is UNCLEAR, candidates (B, M, width) hold who may be one, and beyond (B, M) how far all others are at least.
    """
    rows = status.size
    for task in prange((rows + CHUNK - 1) // CHUNK):
        _ask_trees(points, order, start, box, xyz, query, rank, tolerance, limit, rel, floor,
                   found, status, candidates, beyond, task * CHUNK, min(rows, (task + 1) * CHUNK))  # fmt: skip
