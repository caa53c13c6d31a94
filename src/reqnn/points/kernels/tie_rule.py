# mypy: disallow-untyped-defs=False
"""The tie rule of neighbour searches: candidates sorted by distance become neighbours, where the distances are clear.

Distances are accumulated in double precision and known to within `rel`·d + `floor` of those of the reference. With the
tolerance t of ties, two neighbours in sorted order are tied in the reference where their gap is below t by more than
twice that error, and apart where it is above by as much. Tied runs are the connected parts of "within t", so that if
every gap up to the end of the run of the k-th neighbour is clear, runs and neighbours equal those of the reference. If
one is not, the row is left to the reference arithmetic (`UNCLEAR`); if the run reaches the last candidate, to a wider
search, and in the end to the reference (`OPEN`).
"""

from __future__ import annotations

import numpy as np

from reqnn.kernels.compile import compiled

DONE, UNCLEAR, OPEN = 0, 1, 2
WIDEST = 256  # candidates of a query, at most
CHUNK = 64  # queries of a task


@compiled
def insert(value, index, values, indices, count, width):
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
def _same(x, i, j):
    """Whether two points are one: then the reference too has one distance for both."""
    differ = False
    for a in range(x.shape[1]):
        differ |= x[i, a] != x[j, a]
    return not differ


@compiled
def resolve(distance, index, width, beyond, x, rank, tolerance, rel, floor, k):
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
def write(distance, index, k, limit, rel, floor, found):
    """Write the k neighbours, the first in place of those farther than `limit`."""
    for i in range(k):
        if abs(distance[i] - limit) <= rel * distance[i] + floor:
            return UNCLEAR
        found[i] = index[i] if distance[i] <= limit else index[0]
    return DONE
