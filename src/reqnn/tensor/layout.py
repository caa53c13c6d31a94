"""What the channels of a raw coordinate axis stand for.

A cloud enters a network with an axis of 3·V channels: V vectors (xyz, normals, …), and perhaps a few scalars (colour,
intensity). In the revised network that axis holds one quaternion a vector. The user's code, however, still counts
channels: it writes ``x[:, :3]``, ``view(B, N, 3)`` or ``C = x.shape[1]``. A *layout* remembers, for each quaternion along
the axis, what it stands for, so that every size and index in the user's code keeps its meaning:

====== ===================================================== ======
letter the entry is                                          width
====== ===================================================== ======
``v``  a vector: three neighbouring channels x, y, z              3
``i``  a vector whose channels do not stand side by side          3
``f``  a quaternion feature                                       1
``s``  a declared scalar: only its real part is not zero          1
``l``  a vector that a layer predicts, its channels in no order   3
====== ===================================================== ======

An axis of nothing but features needs no layout. Layouts are strings, so that slicing, repeating and concatenating them
is what it is for strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from math import lcm, prod

from reqnn.errors import NoRuleError

_WIDTH = {"v": 3, "i": 3, "l": 3, "f": 1, "s": 1}


def width(layout: str) -> int:
    """How many of the user's channels the entries stand for."""
    return sum(_WIDTH[entry] for entry in layout)


def has_vectors(layout: str) -> bool:
    """Whether any entry stands for three coordinates."""
    return any(entry in layout for entry in "vil")


def starts(layout: str) -> list[int]:
    """The first channel of each entry."""
    return [0, *accumulate(_WIDTH[entry] for entry in layout)][:-1]


def entries(layout: str, channels: Iterable[int]) -> list[int]:
    """The entries that a list of channels names; whole vectors only, in their own order.

    Raises `NoRuleError` where a vector would be cut or its coordinates reordered.
    """
    owner = [(index, offset) for index, entry in enumerate(layout) for offset in range(_WIDTH[entry])]
    wanted = [owner[channel] for channel in channels]
    chosen: list[int] = []
    at = 0
    while at < len(wanted):
        entry, _ = wanted[at]
        size = _WIDTH[layout[entry]]
        if layout[entry] == "i" or wanted[at : at + size] != [(entry, offset) for offset in range(size)]:
            raise NoRuleError(
                f"the index takes channels {list(channels)[:6]} of an axis whose layout is {describe(layout)}: that cuts a "
                "vector apart, and a single coordinate depends on the orientation"
            )
        chosen.append(entry)
        at += size
    return chosen


def split_sizes(layout: str, sizes: Sequence[int]) -> list[int]:
    """Section sizes counted in channels, as section sizes counted in entries."""
    return [len(entries(layout, range(start, end))) for start, end in pairwise([0, *accumulate(sizes)])]


def describe(layout: str) -> str:
    """A short text for messages: ``xyz-vector ×2 + feature ×64``."""
    names = {"v": "vector (3 channels)", "i": "interleaved vector", "l": "predicted vector", "f": "feature", "s": "scalar"}
    return " + ".join(f"{names[entry]} ×{len(list(run))}" for entry, run in groupby(layout))


def resolve(shape: Sequence[int], numel: int) -> list[int]:
    """Fill in the -1 of a requested shape."""
    sizes = list(shape)
    if -1 in sizes:
        known = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = numel // known if known else 0
    return sizes


def reshape(user: Sequence[int], axis: int, layout: str, shape: Sequence[int]) -> tuple[list[int], int, str]:
    """Follow an axis with a layout through a reshape.

    Args:
        user: the present shape as the user's code sees it; `user[axis]` is counted in channels.
        axis: where the axis is.
        layout: what its entries are.
        shape: the wanted shape in channels, with no -1 left in it.

    Returns:
        the wanted shape with the axis counted in entries, the axis's new place, its new layout.
    """
    group_user, group_shape = _common_group(user, shape, axis)
    if set(layout) == {"l"} and len(group_user) == 1:
        return _read_predicted(layout, shape, group_shape)
    if set(layout) == {"l"} and group_user[0] == axis and group_shape and shape[group_shape[0]] == 3:  # (3V, N) as (3, V·N)
        return _read_predicted(layout, shape, group_shape[:1])
    at_end = group_user[-1] == axis or all(user[dim] == 1 for dim in group_user if dim > axis)
    if not at_end:
        return _interleave(user, axis, layout, shape, group_user, group_shape)
    if not group_shape:
        raise NoRuleError("the axis of a single scalar channel is reshaped away; keep it, or slice it off as x[:, 3:4]")
    target = max((dim for dim in group_shape if shape[dim] != 1), default=group_shape[-1])
    size, full = shape[target], user[axis]
    new = _recut(layout, full, size)
    if new is None:
        raise NoRuleError(
            f"the shape {tuple(shape)} cuts vectors apart: an axis of {full} channels ({describe(layout)}) ends up on an "
            f"axis of {size}"
        )
    out = list(shape)
    out[target] = len(new)
    return out, target, new


def _recut(layout: str, full: int, size: int) -> str | None:
    """The layout of rows of `size` channels, cut from rows of `full` channels end to end; None where they are not all alike."""
    stream = layout * (lcm(size, full) // full)
    cuts = {start: entry for entry, start in enumerate([*starts(stream), lcm(size, full)])}
    edges = [cuts.get(channel) for channel in range(0, lcm(size, full) + 1, size)]
    if None in edges:
        return None
    pieces = {stream[a:b] for a, b in pairwise(edges)}
    return pieces.pop() if len(pieces) == 1 else None


def _read_predicted(layout: str, shape: Sequence[int], group: list[int]) -> tuple[list[int], int, str]:
    """Vectors that a layer predicts on one axis: (N, 3) and (3, N) are both a reading of 3N channels."""
    out = list(shape)
    for dim in (group[-1], *group):
        if shape[dim] == 3:
            out[dim] = 1
            return out, dim, "v"
    long = [dim for dim in group if shape[dim] != 1]
    if len(long) == 1:
        (target,) = long
        out[target] = len(layout)
        return out, target, layout
    raise NoRuleError(f"the shape {tuple(shape)} has no axis of 3 coordinates for the predicted vectors")


def _interleave(
    user: Sequence[int], axis: int, layout: str, shape: Sequence[int], group_user: list[int], group_shape: list[int]
) -> tuple[list[int], int, str]:
    """(3, N) flattened to 3N: still N vectors, but x, y and z of one no longer stand side by side."""
    if next(dim for dim in group_user if user[dim] != 1) == axis and len([d for d in group_shape if shape[d] != 1]) == 1:
        target = next(dim for dim in group_shape if shape[dim] != 1)
        inner = prod(user[dim] for dim in group_user if dim > axis)
        new = "".join(("i" if entry == "v" else entry) * inner for entry in layout)
        out = list(shape)
        out[target] = len(new)
        return out, target, new
    raise NoRuleError(
        f"the shape {tuple(shape)} mixes the coordinates of {tuple(user)} (channels on axis {axis}) with another axis; "
        "transpose so that the coordinates come last, or keep them on an axis of their own"
    )


def _common_group(user: Sequence[int], shape: Sequence[int], axis: int) -> tuple[list[int], list[int]]:
    """The smallest runs of axes of both shapes that hold the same elements and contain `axis`."""
    i = j = 0
    while i < len(user):
        left, right = [i], [j] if j < len(shape) else []
        size_left, size_right = user[i], shape[j] if right else 1
        i, j = i + 1, j + 1
        while size_left != size_right:
            if size_left < size_right:
                left.append(i)
                size_left *= user[i]
                i += 1
            else:
                right.append(j)
                size_right *= shape[j]
                j += 1
        if axis in left:
            return left, right
    raise AssertionError("the axis lies outside the shape")
