# mypy: disallow-untyped-defs=False
"""Compiled neighbour search: candidates from a k-d tree or from rows of approximate squares, then the tie rule.

Distances are accumulated in double precision and known to within `rel`·d + `floor` of those of the reference. With the
tolerance t of ties, two neighbours in sorted order are tied in the reference where their gap is below t by more than
twice that error, and apart where it is above by as much. Tied runs are the connected parts of "within t", so that if
every gap up to the end of the run of the k-th neighbour is clear, runs and neighbours equal those of the reference. If
one is not, the row is left to the reference arithmetic (`UNCLEAR`); if the run reaches the last candidate, to a wider
search, and in the end to the reference (`OPEN`).

All of it is in one file, because numba's cache notices a change of the file of a kernel, not of those it calls.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop

DONE, UNCLEAR, OPEN = 0, 1, 2
LEAF = 12  # points in a leaf of the tree, at most
WIDEST = 256  # candidates of a query, at most
CLASSES = 128  # of the entries of a row, for a quick look at its smallest
CHUNK = 64  # queries of a task


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
def _insert(value, index, values, indices, count, width):
    """Put a pair into the `count` sorted ones, of which `width` are kept; return how many there are now."""
    if count < width:
        count += 1
    i = count - 1
    while i > 0 and values[i - 1] > value:
        values[i] = values[i - 1]
        indices[i] = indices[i - 1]
        i -= 1
    values[i] = value
    indices[i] = index
    return count


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
                    count = _insert(d, order[j], square, index, count, width)
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
def _same(x, i, j):
    """Whether two points are one: then the reference too has one distance for both."""
    differ = False
    for a in range(x.shape[1]):
        differ |= x[i, a] != x[j, a]
    return not differ


@compiled
def _resolve(distance, index, width, beyond, x, rank, tolerance, rel, floor, k):
    """Order the candidates by tied run, rank and index, up to the run of the k-th; points left out are `beyond` at least.

    Those of one run and rank that do not all fit into k places are replaced by the first, unless they are the first.
    """
    begin = 0
    while begin < k:
        end = begin + 1
        while True:
            last = distance[end - 1]
            gap, slack = np.inf, 0.0
            if end < width:
                gap = distance[end] - last
                slack = rel * (distance[end] + last) + 2 * floor
            if gap > tolerance + slack:  # the run is over, unless a point left out could go on with it
                if beyond < np.inf and beyond - last <= tolerance + rel * (beyond + last) + 2 * floor:
                    return OPEN
                break
            if gap > tolerance - slack and not _same(x, index[end], index[end - 1]):
                return UNCLEAR
            end += 1
        for i in range(begin + 1, end):
            d, j = distance[i], index[i]
            m = i
            while m > begin and (rank[index[m - 1]], index[m - 1]) > (rank[j], j):
                distance[m], index[m] = distance[m - 1], index[m - 1]
                m -= 1
            distance[m], index[m] = d, j
        if end > k and rank[index[k - 1]] == rank[index[k]]:
            first = k - 1
            while first > begin and rank[index[first - 1]] == rank[index[k]]:
                first -= 1
            for i in range(first if first > 0 else k, k):
                distance[i], index[i] = distance[0], index[0]
        begin = end
    return DONE


@compiled
def _write(distance, index, k, limit, rel, floor, found):
    """Write the k neighbours, the first in place of those farther than `limit`."""
    for i in range(k):
        if abs(distance[i] - limit) <= rel * distance[i] + floor:
            return UNCLEAR
        found[i] = index[i] if distance[i] <= limit else index[0]
    return DONE


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
            state = _resolve(square, index, width, rest, xyz[b], rank[b], tolerance[b], rel, floor, k)
            if state == OPEN and width < min(total, WIDEST):
                width = min(4 * width, total, WIDEST)
                continue
            if state == DONE:
                state = _write(square, index, k, limit[b], rel, floor, found[b, m])
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
            count = _insert(values[j], j, value, index, count, width)
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
                    count = _insert(d, index[i], distance, other, count, width)
            if many > width:
                rest = min(rest, distance[width - 1])
            if width == narrow:
                beyond[b, m] = rest
                for i in range(width):
                    candidates[b, m, i] = other[i]
            state = _resolve(distance, other, width, rest, xyz[b], rank[b], tolerance[b], rel, floor, k)
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
    """As `search_trees`, from the products ⟨q, x⟩ (B, M, N) and squares ‖x‖² (B, N) of centred queries and points.

    With their norms ‖q‖, length (B, M), they give ‖q - x‖² to within error·(‖q‖ + reach)², reach (B,) the largest ‖x‖.
    """
    rows = status.size
    for task in prange((rows + CHUNK - 1) // CHUNK):
        _ask_rows(length, reach, error, product, square, xyz, query, rank, tolerance, rel, floor,
                  found, status, candidates, beyond, task * CHUNK, min(rows, (task + 1) * CHUNK))  # fmt: skip
