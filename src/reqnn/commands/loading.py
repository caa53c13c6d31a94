"""Example inputs of a network, from the shapes on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reqnn.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def parse_shape(text: str) -> tuple[int, ...]:
    """A shape such as 2,128,3."""
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").strip("()[]").split(",") if part.strip())
    except ValueError:
        shape = ()
    if len(shape) < 2 or min(shape) < 1:
        raise InputError(f"--points {text}: a shape is needed, such as 2,128,3 for two clouds of 128 points")
    return shape


def example_inputs(
    shapes: Sequence[tuple[int, ...]], vector_axis: int | None = None, scalars: int = 0, seed: int = 0
) -> Tensor | tuple[Tensor, ...]:
    """Clouds on surfaces in the given shapes: xyz, then normals, then random vectors, then scalars between 0 and 1.

    An input without a vector axis gets random numbers.
    """
    import torch

    from reqnn.data.surfaces import surfaces
    from reqnn.revision.inputs import read_inputs

    empty = tuple(torch.zeros(shape) for shape in shapes)
    inputs, _ = read_inputs(empty if len(empty) > 1 else empty[0], vector_axis, scalars)
    generator = torch.Generator().manual_seed(seed)
    filled: list[Tensor] = []
    for shape, axis in zip(shapes, inputs.axes, strict=True):
        if axis is None:
            filled.append(torch.rand(shape, generator=generator))
            continue
        batch, inner = (shape[0], shape[1:]) if len(shape) > 2 else (1, shape)
        rest = [size for i, size in enumerate(inner, start=len(shape) - len(inner)) if i != axis]
        count, vectors = torch.Size(rest).numel(), shape[axis] - scalars
        more = torch.randn(batch, count, max(vectors - 6, 0), generator=generator)
        whole = torch.cat([*surfaces(batch, count, seed, torch.float32), more], dim=-1)[..., :vectors]
        whole = torch.cat([whole, torch.rand(batch, count, scalars, generator=generator)], dim=-1).unflatten(1, rest)
        filled.append((whole if len(shape) > 2 else whole[0]).movedim(-1, axis).contiguous())
        scalars = 0  # the first cloud has them
    return tuple(filled) if len(filled) > 1 else filled[0]
