"""Sums, means and norms over axes; distances."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.arithmetic import inner
from reqnn.rules.algebra.base import algebra, refuse_over_vectors, rule, same_parts
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import safe_sqrt
from reqnn.tensor.gathered import Flattened, Gathered, form_of

MANY = 64  # coordinates from which distances are computed by a matrix product, as torch does by default


def reduced(x: Q, components: Tensor, dims: Sequence[int], keepdim: bool) -> Q:
    """The result of a reduction over logical axes."""
    if x.axis is None or x.axis in dims:
        return x.like(components)
    axis = x.axis if keepdim else x.axis - sum(d < x.axis for d in dims)
    return x.like(components, axis, x.vectors)


@algebra.each("sum", "mean", "nansum", "nanmean", row="algebra")
def linear_reduction(name: str, x: Q, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Q:
    """Σ q, or the mean of quaternions; over coordinates it raises."""
    name = name.removeprefix("nan")
    dims = tuple(range(x.rank)) if dim is None or dim == () else x.dims(dim)
    refuse_over_vectors(x, dims, name)
    if x.axis in dims and "s" in x.vectors:
        raise NoRuleError(f"{name} over an axis that holds scalars beside vectors")
    out = getattr(torch, name)(x.components, [d + 1 for d in dims], keepdim=keepdim, dtype=dtype)
    return reduced(x, out, dims, keepdim)


@rule("cumsum")
def cumsum(x: Q, dim: int, *, dtype: Any = None) -> Q:
    """Running sums; along the points they would depend on their order."""
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], "cumsum")
    count = x.stored_shape[at + 1]
    if x.context.points is not None and count == x.context.points.shape[1] > 1:
        raise NoRuleError(f"running sums along the {count} points depend on their order; sum them, or sort them first")
    return x.same(x.components.cumsum(at + 1, dtype=dtype))


@rule("diff")
def diff(x: Q, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Q:
    """Differences of neighbours; what is put before or behind must be quaternions too."""
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], "diff")
    for more in (prepend, append):
        if more is not None and not isinstance(more, Q):
            raise NoRuleError("diff with real numbers before or behind quaternion features")
    ends = {name: more.components for name, more in (("prepend", prepend), ("append", append)) if more is not None}
    return x.same(x.components) if n == 0 else x.like(x.components.diff(n, at + 1, **ends), x.axis, x.vectors)


@rule("norm", "linalg_norm", "linalg_vector_norm", "frobenius_norm")
def norm(
    x: Q, p: Any = 2, dim: Any = None, keepdim: bool = False, out: None = None, dtype: torch.dtype | None = None, **named: Any
) -> Tensor:
    """√Σ‖q‖² over axes: invariant. Along coordinates it is the length of the vectors."""
    order = named.get("ord", p)
    if dtype is not None:
        x = x.same(x.components.to(dtype))
    dims = tuple(range(x.rank)) if dim is None else x.dims(dim)
    if order not in (2, 2.0, "fro", None):
        refuse_over_vectors(x, dims, f"the {order}-norm")
        return torch.linalg.vector_norm(x.norm_of_elements(), order, dims, keepdim)
    return safe_sqrt(x.squared_norm().sum(dims, keepdim=keepdim))


@rule("cdist")
def cdist(a: Any, b: Any, p: float = 2.0, **named: Any) -> Tensor:
    """Distances between rows of quaternions: invariant."""
    if p != 2 or not (isinstance(a, Q) and isinstance(b, Q)):
        raise NoRuleError("only the Euclidean distance (p = 2) of two quaternion tensors is invariant")
    for x in (a, b):
        refuse_over_vectors(x, range(x.rank - 1), "cdist")
    for x, y in ((a, b), (b, a)):
        if x.context.plan is not None and y.holds_vectors(-1) and x.axis is None and x.user_shape[-1] == y.user_shape[-1]:
            x.context.plan.output_vectors(x)  # a reconstruction, compared with the points
    if a.layout_on(-1) != b.layout_on(-1) and (a.holds_vectors(-1) or b.holds_vectors(-1)):
        raise NoRuleError("distances between coordinates and quaternion features")
    a, b = same_parts(a, b)
    left, right = a.as_real_coordinates(), b.as_real_coordinates()
    if left.shape[-1] < MANY:
        return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")
    centre = right.detach().mean(-2, keepdim=True)  # a product instead of differences loses fewer digits near the origin
    return torch.cdist(left - centre, right - centre, compute_mode="use_mm_for_euclid_dist")


@rule("pairwise_distance")
def pairwise_distance(a: Any, b: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖a − b‖ along the last axis."""
    if eps > 1e-6:  # torch adds it to every coordinate; the default is below what matters
        raise NoRuleError(f"pairwise_distance with eps={eps}, which is added to coordinates: leave it at 1e-6")
    return norm(a - b, p, -1, keepdim)


@rule("cosine_similarity")
def cosine_similarity(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """⟨a, b⟩ / (‖a‖·‖b‖) along an axis."""
    product = inner(a, b).sum(dim)
    return product / (norm(a, 2, dim).clamp(min=eps) * norm(b, 2, dim).clamp(min=eps))


@rule("var", extension=True)
def var(x: Q, dim: Any = None, *args: Any, correction: Any = 1, keepdim: bool = False, **named: Any) -> Tensor:
    """E‖q − E q‖² over axes: the spread of the quaternions, one number for x, y and z."""
    if isinstance(dim, bool):  # x.var(False): `unbiased` comes first where there is no dim
        dim, correction = None, int(dim)
    if args:
        correction = args[0] if not isinstance(args[0], bool) else int(args[0])
        keepdim = args[1] if len(args) > 1 else keepdim
    correction = int(named.get("unbiased", correction))
    dims = tuple(range(x.rank)) if dim is None else x.dims(dim)
    if dims == (x.axis,) and len(x.vectors) == 1:
        raise NoRuleError("the variance among the coordinates x, y, z of one vector depends on the orientation")
    count = prod(x.stored_shape[d + 1] for d in dims)
    spread = _spread_of_gathered(x, dims, keepdim)
    if spread is None:
        axes = [d + 1 for d in dims]
        spread = (x.components - x.components.mean(axes, keepdim=True)).square().sum(0).sum(dims, keepdim=keepdim)
    return spread / max(count - correction, 1)


def _spread_of_gathered(x: Q, dims: tuple[int, ...], keepdim: bool) -> Tensor | None:
    """Σ‖q − E q‖² of gathered features over all axes, or all but the first, from sums over their rows; None elsewhere."""
    kept = form_of(x, (Gathered, Flattened))
    if kept is None or set(range(x.rank)) - set(dims) not in (set(), {0}) or x.axis is not None:
        return None
    found = (kept.form if isinstance(kept, Flattened) else kept).moments()
    if found is None:
        return None
    squares, sums = (total if 0 not in dims else total.sum(0, keepdim=True) for total in found)
    spread = (squares - sums.square().sum(-1) * len(squares) / prod(x.stored_shape[1:])).clamp(min=0).to(x.dtype)
    if keepdim:
        return spread.reshape(-1, *[1] * (x.rank - 1))
    return spread if 0 not in dims else spread.squeeze(0)


@rule("var_mean", extension=True)
def var_mean(x: Q, dim: Any = None, *args: Any, **named: Any) -> tuple[Tensor, Q]:
    """`var` and the mean; the arguments are (unbiased) or (dim, unbiased, keepdim)."""
    keepdim = bool(args[1] if len(args) > 1 else named.get("keepdim", False))
    return var(x, dim, *args, **named), linear_reduction("mean", x, None if isinstance(dim, bool) else dim, keepdim)
