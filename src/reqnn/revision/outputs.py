"""The outputs of a revised network as its original gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from reqnn.errors import InputError
from reqnn.revision.inputs import Inputs, is_numbers, rotate_vectors
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.markers import RemovedBias, RemovedTransform, ScalarTensor
from reqnn.tensor.nested import leaves, map_leaves


def to_outputs(tree: Any) -> Any:
    """Outputs as the original gives them: vectors as coordinates, other quaternions by their squared norms."""
    return map_leaves(_to_output, tree)


def _to_output(leaf: Any) -> Any:
    if isinstance(leaf, QuaternionTensor):
        leaf.check_written()
        if leaf.axis is not None and set(leaf.vectors) <= {"v", "l", "s"}:
            return leaf.as_real()
        return leaf.squared_norm()
    if isinstance(leaf, (RemovedTransform, RemovedBias, ScalarTensor)):
        return leaf.as_subclass(Tensor)
    return leaf


MATRICES = ((3, 3), (3, 4), (4, 4))
"""The shapes of matrices A that become R·A·Rᵀ; of 3 × 4 and 4 × 4, (A, t) with (0, 0, 0, 1) below, t becomes R·t."""


def rotated_back(tree: Any, places: Mapping[int, tuple[int, ...]], frames: Tensor) -> Any:
    """Outputs seen from the frames F (B, 3, 3), along the axes given for their places among the leaves: v → F·v, A → F·A·Fᵀ."""
    found = iter(range(len(leaves(tree))))
    return map_leaves(lambda leaf: _along(leaf, places.get(next(found), ()), frames), tree)


def _along(value: Any, axes: tuple[int, ...], frames: Tensor) -> Any:
    if axes and len(value) % len(frames):
        raise InputError(
            f"an output of shape {tuple(value.shape)} should rotate with its cloud, but its {len(value)} rows do not belong to "
            f"{len(frames)} clouds; say that it is real: outputs=('real', …), one entry for each tensor that the model returns"
        )
    for axis in axes:
        rows = frames.repeat_interleave(len(value) // len(frames), 0) if len(frames) > 1 else frames
        value = rotate_vectors(value, axis % value.dim(), rows, value.shape[axis] % 3)
    return value


def matrix_outputs(expected: Any, outputs: Sequence[str] | None) -> dict[int, tuple[int, ...]]:
    """Place among the leaves → axes of each output that the user calls matrices."""
    numbers = [i for i, leaf in enumerate(leaves(expected)) if is_numbers(leaf)]
    named = [outputs] if isinstance(outputs, str) else outputs or []
    wanted = [i for i, word in zip(numbers, named, strict=False) if word == "matrices"]
    for i in wanted:
        if (shape := tuple(leaves(expected)[i].shape))[-2:] not in MATRICES or len(shape) < 3:
            raise InputError(f"outputs: 'matrices' are (B, …, 3, 3), (B, …, 3, 4) or (B, …, 4, 4); this output is {shape}")
    return dict.fromkeys(wanted, (-2, -1))


def rotating_outputs(
    expected: Any, args: tuple[Any, ...], inputs: Inputs, to_real: Any, outputs: Sequence[str] | None
) -> list[bool]:
    """For each output of the original, in the order of its leaves, whether it is coordinates, which rotate with the cloud.

    `outputs` says so for each tensor; otherwise coordinates have as many axes as the input and 3 on the same one. If
    Quaternion2Real stands nowhere (`to_real=False`), 3 on any axis is enough, and if there is none, all rotate.
    """
    found = leaves(expected)
    numbers = [i for i, leaf in enumerate(found) if is_numbers(leaf)]
    if outputs is not None:
        given = [outputs] if isinstance(outputs, str) else list(outputs)
        if len(given) != len(numbers) or set(given) - {"real", "vectors", "matrices"}:
            raise InputError(
                f"outputs is {outputs!r}; the model returns {len(numbers)} tensors: 'real' or 'vectors' for each, or "
                "'matrices', which become R·A·Rᵀ"
            )
        return [i in numbers and given[numbers.index(i)] == "vectors" for i in range(len(found))]
    if to_real not in (None, False):
        return [False] * len(found)
    position, axis = inputs.first
    rank = args[position].dim()
    if to_real is False:
        like = [i for i in numbers if found[i].dim() == rank and 3 in found[i].shape[1:]] or numbers
    else:
        like = [i for i in numbers if rank > 2 and found[i].dim() == rank and found[i].shape[axis] == 3]
        if args[position].shape[1:] != (3, 3):
            like = [i for i in like if found[i].shape[1:] != (3, 3)]  # the matrices of a spatial transformer
        clouds = [i for i in numbers if found[i].dim() == 3 and tuple(found[i].shape[1:]) not in MATRICES]
        if rank == 3 and any(found[i].shape[axis] != 3 == found[i].shape[-axis % 3] for i in clouds):
            raise InputError(
                f"the coordinates of the input {tuple(args[position].shape)} are on axis {axis}, and an output has 3 on the "
                f"other one ({', '.join(str(tuple(found[i].shape)) for i in numbers)}): coordinates, or three classes? Pass "
                f"outputs= with 'vectors' or 'real' for each of the {len(numbers)} tensors that the model returns, if they are "
                f"coordinates outputs={tuple(_likely(tuple(found[i].shape), cloud=True) for i in numbers)!r}"
            )
    return [i in like for i in range(len(found))]


def unclear_outputs(expected: Any, rotating: Sequence[bool], stated: bool) -> list[str]:
    """A note for each kind of output that does not rotate and may be meant to; none if the user has `stated` which do."""
    if stated:
        return []
    say = likely_outputs(expected, rotating)
    shapes = [leaf.shape for leaf, rotates in zip(leaves(expected), rotating, strict=True) if is_numbers(leaf) and not rotates]
    notes = []
    if any(len(shape) == 2 and shape[1] == 3 for shape in shapes):
        notes.append(
            "an output (B, 3) is taken for three real numbers, such as logits, and does not rotate; if it is a direction or a "
            f"position, pass outputs= with 'vectors' for it: {say}"
        )
    if any(shape[-2:] == (3, 3) for shape in shapes):
        notes.append(
            "outputs (…, 3, 3) do not rotate; if such a matrix A belongs to the cloud (a rotation, a covariance) and should "
            f"become R·A·Rᵀ, pass outputs= with 'matrices' for it: {say}"
        )
    return notes


def likely_outputs(expected: Any, rotating: Sequence[bool]) -> str:
    """What the user may pass as ``outputs=``, by the shapes; "" if all are clear."""
    pairs = [(tuple(x.shape), rotates) for x, rotates in zip(leaves(expected), rotating, strict=True) if is_numbers(x)]
    words = ["vectors" if rotates else _likely(shape) for shape, rotates in pairs]
    clear = all(word == "real" or rotates for word, (_, rotates) in zip(words, pairs, strict=True))
    return "" if clear else f"outputs={tuple(words)!r}"


def _likely(shape: tuple[int, ...], cloud: bool = False) -> str:
    """What an output is by its shape; `cloud`: (B, N, 3) and (B, 3, N) are coordinates, too."""
    if len(shape) > 2 and shape[-2:] in MATRICES:
        return "matrices"
    return "vectors" if (len(shape) == 2 or (cloud and len(shape) == 3)) and 3 in shape[1:] else "real"
