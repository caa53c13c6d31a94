"""Tests of equivariance for your own layers, rules and networks.

    error = max |f(R·x) − R·f(x)|, relative to the larger of 1 and the largest entry of R·f(x)

Quaternion features always rotate. A real tensor rotates if it holds coordinates: `axis` names the axis on which they are stored
(x, y, z, or several vectors one after another) for inputs and `out_axis` for outputs; None means that it must not change.

    def test_my_layer():
        x = QuaternionTensor(torch.randn(3, 2, 8, 16, dtype=torch.float64))  # 2 clouds, 8 channels, 16 points
        assert_equivariant(my_layer, x)
        assert_invariant(my_network, torch.randn(2, 64, 3, dtype=torch.float64), points_axis=1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reqnn import quaternion
from reqnn.errors import InputError
from reqnn.revision import compare
from reqnn.tensor import QuaternionTensor, from_real

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def rotated(x: Any, rotation: Tensor, axis: int | None = None) -> Any:
    """R·x for features, coordinates on `axis`, or lists and tuples of them; other values are returned as they are."""
    if isinstance(x, (tuple, list)):
        return [rotated(item, rotation, axis) for item in x]
    if isinstance(x, QuaternionTensor):
        imaginary = torch.einsum("ij,j...->i...", rotation.to(x.components), x.imaginary())
        return x.same(torch.cat([x.components[:-3], imaginary]))
    if axis is None or not isinstance(x, Tensor) or not x.is_floating_point():
        return x
    return rotated(from_real(x, axis), rotation).as_real()


def relative_error(found: Any, expected: Any) -> float:
    """The largest difference of two results, relative to the larger of 1 and the largest entry expected."""
    if isinstance(found, (tuple, list)):
        return max((relative_error(a, b) for a, b in zip(found, expected, strict=True)), default=0.0)
    if isinstance(found, QuaternionTensor):
        if (found.axis, found.vectors, found.shape) != (expected.axis, expected.vectors, expected.shape):
            raise AssertionError(f"the rotated input gives {found.shape}, the original one {expected.shape}")
        return relative_error(found.components, expected.components)
    if not isinstance(found, Tensor):
        return 0.0
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    return compare.relative_error(found.detach(), expected.detach(), scale)


def equivariance_error(
    function: Callable[..., Any],
    inputs: Any,
    rotation: Tensor | None = None,
    *,
    axis: int | None = -1,
    out_axis: int | None = None,
    rotations: int = 4,
    seed: int = 0,
) -> float:
    """The largest error over random rotations, or that of the given `rotation` (3, 3).

    Args:
        function: a layer, a rule or a network; networks in eval mode, so that nothing is random.
        inputs: its argument, or a tuple of arguments.
        axis, out_axis: where real inputs and outputs hold coordinates, None if they hold none.
    """
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    generator = torch.Generator().manual_seed(seed)
    given = [rotation] if rotation is not None else quaternion.random_matrix((rotations,), generator, torch.float64)
    expected = function(*arguments)
    errors = (relative_error(function(*rotated(arguments, each, axis)), rotated(expected, each, out_axis)) for each in given)
    return max(errors)


def permutation_error(function: Callable[..., Any], points: Tensor, points_axis: int, seed: int = 0) -> float:
    """How much the outputs change with the order of the points."""
    order = torch.randperm(points.shape[points_axis], generator=torch.Generator().manual_seed(seed))
    return relative_error(function(points.index_select(points_axis, order.to(points.device))), function(points))


def _tolerance(inputs: Any, tolerance: float | None) -> float:
    if tolerance is not None:
        return tolerance
    first = next((x for x in (inputs if isinstance(inputs, tuple) else (inputs,)) if isinstance(x, Tensor)), None)
    if first is None or first.dtype not in TOLERANCE:
        raise InputError("pass tensors in float64 (best) or float32, or a tolerance")
    return TOLERANCE[first.dtype]


def assert_equivariant(
    function: Callable[..., Any], inputs: Any, *args: Any, tolerance: float | None = None, **options: Any
) -> None:
    """Fail unless f(R·x) = R·f(x); arguments as of `equivariance_error`, tolerance 1e-10 in float64 and 1e-4 in float32."""
    error, bound = equivariance_error(function, inputs, *args, **options), _tolerance(inputs, tolerance)
    if not error <= bound:
        raise AssertionError(f"not rotation-equivariant: relative error {error:.1e}, tolerance {bound:.0e}")


def assert_invariant(
    function: Callable[..., Any], inputs: Any, *, points_axis: int | None = None, tolerance: float | None = None, **options: Any
) -> None:
    """Fail unless f(R·x) = f(x) and, with `points_axis`, the order of the points does not matter either."""
    assert_equivariant(function, inputs, tolerance=tolerance, out_axis=None, **options)
    if points_axis is not None:
        error, bound = permutation_error(function, inputs, points_axis), _tolerance(inputs, tolerance)
        if not error <= bound:
            raise AssertionError(f"depends on the order of the points: relative error {error:.1e}, tolerance {bound:.0e}")
