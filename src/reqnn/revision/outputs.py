"""The outputs of a revised network as its original gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from reqnn.errors import InputError
from reqnn.revision.inputs import Inputs, is_numbers
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
        if len(given) != len(numbers) or set(given) - {"real", "vectors"}:
            raise InputError(f"outputs is {outputs!r}; the model returns {len(numbers)} tensors: 'real' or 'vectors' for each")
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
        if rank == 3 and any(found[i].dim() == 3 and found[i].shape[axis] != 3 == found[i].shape[-axis % 3] for i in numbers):
            raise InputError(
                f"the coordinates of the input {tuple(args[position].shape)} are on axis {axis}, and an output has 3 on the "
                f"other one ({', '.join(str(tuple(found[i].shape)) for i in numbers)}): coordinates, or three classes? Pass "
                f"outputs= with 'vectors' or 'real' for each of the {len(numbers)} tensors that the model returns"
            )
    return [i in like for i in range(len(found))]


def unclear_outputs(expected: Any, rotating: Sequence[bool], stated: bool) -> list[str]:
    """A note for each kind of output that does not rotate and may be meant to; none if the user has `stated` which do."""
    if stated:
        return []
    shapes = [leaf.shape for leaf, rotates in zip(leaves(expected), rotating, strict=True) if is_numbers(leaf) and not rotates]
    notes = []
    if any(len(shape) == 2 and shape[1] == 3 for shape in shapes):
        notes.append(
            "an output (B, 3) is taken for three real numbers, such as logits, and does not rotate; if it is a direction or a "
            "position, pass outputs= with 'vectors' for it"
        )
    if any(shape[-2:] == (3, 3) for shape in shapes):
        notes.append("outputs (…, 3, 3) do not rotate: a matrix A that belongs to the cloud would have to become R·A·Rᵀ")
    return notes
