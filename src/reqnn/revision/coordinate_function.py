"""A function of the network's own that takes coordinates as the real numbers that they are (an extension of the paper).

A hand-written cross product, an angle by atan2, or the normal of a triangle reads single coordinates, which depend on the
orientation, and still gives a number that does not rotate, or a vector that does. Whether a function does is measured in
the dry run, on its arguments and on the same rotated. One that does not may compute in the PCA frame of the cloud instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reqnn import quaternion
from reqnn.errors import NoRuleError
from reqnn.nn.coordinates import InFrame
from reqnn.tensor import QuaternionTensor, from_real, quaternions
from reqnn.tensor.nested import leaves, map_leaves

_TOLERANCE = 1e-7  # of the largest entry, in float64


class CoordinateFunction:
    """A function in a revised copy that is tried on real coordinates.

    Args:
        name: what the network calls it.
        axis: of the coordinates in the network's input.

    Attributes:
        original: the function as the network has it, on quaternions.
        kinds: for each output, in the order of leaves, the axis of its vectors counted from the end, None if it does not
            rotate; "" before the dry run has measured it, and False if some output does neither.
        frame: it computes in the PCA frame.
    """

    original: Callable[..., Any]

    def __init__(self, name: str, axis: int) -> None:
        self.__name__, self.axis = name, axis
        self.kinds: list[int | None] | bool | str = ""
        self.frame: FunctionInFrame | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "original"}  # the workspace clones it anew

    def run_in_frame(self) -> FunctionInFrame:
        """Compute in the PCA frame from now on; coordinates among the results are rotated back."""
        self.frame = FunctionInFrame(self, self.axis)
        return self.frame

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers that do not rotate as real numbers, vectors as quaternions; the original's result for other arguments."""
        operands = list(quaternions(args, kwargs))
        if operands and self.frame is not None:
            return self.frame(*args, **kwargs)
        if not operands or self.kinds is False or any(x.axis is None or set(x.vectors) != {"v"} for x in operands):
            return self.original(*args, **kwargs)
        context = operands[0].context
        if context.plan is not None:
            kinds = self._measure((args, kwargs), operands[0].dtype)
            self.kinds = kinds if self.kinds in ("", kinds) else False
            if self.kinds is False:
                return self.original(*args, **kwargs)
            context.plan.met("Function of coordinates", self.__name__, extension=True)
        assert isinstance(self.kinds, list)
        result = self._on_numbers(map_leaves(_as_real, (args, kwargs)))
        kinds_left = iter(self.kinds)

        def wrap(leaf: Any) -> Any:
            axis = next(kinds_left)
            return leaf if axis is None else from_real(leaf, axis, context)

        return map_leaves(wrap, result)

    def _on_numbers(self, given: Any) -> Any:
        return self.original(*given[0], **given[1])

    def _measure(self, given: Any, dtype: torch.dtype) -> list[int | None] | bool:
        """What each output does if all coordinates rotate; False if that is neither nothing nor to rotate."""
        rotation = quaternion.random_matrix((), torch.Generator().manual_seed(0), torch.float64)
        numbers = map_leaves(lambda leaf: _as_real(leaf, torch.float64), given)
        moved = map_leaves(lambda leaf: _as_real(_rotated(leaf, rotation), torch.float64), given)
        before = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves(numbers)]
        try:
            outputs, others = leaves(self._on_numbers(numbers)), leaves(self._on_numbers(moved))
        except Exception:  # it needs quaternions, or the network's own dtype
            return False
        pairs = zip(leaves(numbers), before, strict=True)
        written = any(isinstance(a, Tensor) and not torch.equal(a, b) for a, b in pairs)
        if written or len(outputs) != len(others) or not any(isinstance(leaf, Tensor) for leaf in outputs):
            return False
        kinds = [_kind(a, b, rotation) for a, b in zip(outputs, others, strict=True)]
        return False if any(kind is False for kind in kinds) else kinds


class FunctionInFrame(InFrame):
    """A function that computes in the PCA frame of the cloud."""

    flat = False

    def __init__(self, function: CoordinateFunction, axis: int) -> None:
        super().__init__(function, axis, extension=True, rotate_back=True)  # type: ignore[arg-type]

    def _forward(self, given: tuple[tuple, dict]) -> Any:
        return self.module.original(*given[0], **given[1])  # type: ignore[operator]

    def _split(self, leaf: Any) -> Any:
        if isinstance(leaf, QuaternionTensor) and (leaf.axis is None or "f" in leaf.vectors):
            raise NoRuleError(
                "features enter a function that computes in the PCA frame; make it a submodule, before which they become real"
            )
        return super()._split(leaf)


def _as_real(leaf: Any, dtype: torch.dtype | None = None) -> Any:
    """Quaternions as real coordinates; with a dtype other real tensors in it, too."""
    leaf = leaf.as_real() if isinstance(leaf, QuaternionTensor) else leaf
    return leaf.to(dtype) if dtype is not None and isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _rotated(leaf: Any, rotation: Tensor) -> Any:
    if not isinstance(leaf, QuaternionTensor):
        return leaf
    return leaf.same(torch.einsum("ij,j...->i...", rotation.to(leaf.components.device), leaf.components.double()))


def _kind(a: Any, b: Any, rotation: Tensor) -> int | bool | None:
    """None if b equals a; the axis, from the end, along which b is a rotated; False if neither."""
    if not isinstance(a, Tensor) or not a.is_floating_point():
        same = torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b or a == b
        return None if same else False
    if not isinstance(b, Tensor) or a.shape != b.shape or not bool(a.isfinite().all() & b.isfinite().all()) or not a.numel():
        return False
    limit = _TOLERANCE * float(a.abs().max())
    if float((a - b).abs().max()) <= limit:
        return None
    for axis in range(-1, -a.dim() - 1, -1):
        if a.shape[axis] % 3 == 0:
            vectors = a.movedim(axis, -1).unflatten(-1, (-1, 3)) @ rotation.to(a).T
            if float((vectors.flatten(-2).movedim(-1, axis) - b).abs().max()) <= limit:
                return axis
    return False
