"""The set of rules, its options, and what its layers share: the two parts of a quaternion and how they meet.

A general quaternion s + v has a real part that rotation leaves alone and an imaginary part that rotates. The real parts run the
ordinary network, biases and all; the imaginary parts carry orientation. They meet in two ways only, both equivariant:

    linear maps p, q, r of the imaginary parts enter the real ones as ‖p‖, ⟨p, q⟩ and, with a cross product, ⟨p × q, r⟩
    the real part opens or closes the imaginary one: v·γ(s)

The last invariant changes its sign in a mirror: with it, and only with it, left and right differ.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import full_rows
from reqnn.kernels.rows import from_rows, to_rows
from reqnn.kernels.run import loops_run_on
from reqnn.rules.options import choice
from reqnn.rules.paper.base import paper
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor as Q

full = RuleSet("full", parent=paper, options={"products": 16, "pooling": "mean", "handed": True, "unit": "both"})
"""Options: ``products``, how many invariants of each kind a layer feeds into its real part; ``pooling``, what a maximum over
real parts does with the imaginary ones: their "mean", or that of the "winner"; ``handed``, whether triple products, which
distinguish mirror images, are among the invariants; ``unit``, where imaginary parts are brought to unit size: in every "norm"
layer, behind every "pool", or "both"."""

EPS = 1e-3  # of a mean squared length: what is shorter fades


def by_the_paper(name: str, x: Q, *args: Any, **kwargs: Any) -> Any:
    """What the paper's rule does: to pure quaternions, which have no real part to act on."""
    rule = paper.find(name)
    assert rule is not None
    return rule.apply(x, *args, **kwargs)


def loops_serve(x: Q, part: Tensor) -> bool:
    """Whether the loops of `reqnn.kernels.full_rows` may run on this part (3, *) of x now; it needs places beside channels."""
    wanted = x.context.rules.option("fused") and x.context.plan is None
    return wanted and part.dim() > 2 and part.numel() > 0 and loops_run_on(part)


def kinds(x: Q) -> int:
    """How many linear maps an invariant of each kind needs: p and q, or p, q and r."""
    return 3 if choice(x, "handed", True, False) else 2


def invariants(x: Q, maps: Tensor, count: int, axis: int) -> Tensor:
    """‖p‖, ⟨p, q⟩ and, where there is an r, ⟨p × q, r⟩ of linear maps of x, side by side.

    Shapes: maps (3, *) with the channels of p, q (, r) on logical axis `axis` → (*) with 2·count (3·count) there
    """
    if loops_serve(x, maps):
        return full_rows.invariants(to_rows(maps, axis), count).movedim(-1, axis)
    return full_rows.invariants_reference(maps.movedim((0, axis + 1), (-2, -1)), count).movedim(-1, axis)


def unit_size(x: Q, imaginary: Tensor, axis: int, where: str) -> Tensor:
    """v / √(1/C Σ_c ‖v_c‖² + ε) at each place, 0 if that is rounding, where the option ``unit`` asks for it.

    Shapes: imaginary (3, *) with C on logical axis `axis` → the same
    """
    if choice(x, "unit", "norm", "pool", "both") not in (where, "both"):
        return imaginary
    if loops_serve(x, imaginary):
        return from_rows(full_rows.unit(to_rows(imaginary, axis), EPS), axis)
    return imaginary * full_rows.unit_factor(imaginary.square().sum(0).mean(axis, keepdim=True), EPS)


def small(weight: Tensor) -> None:
    """The weights of invariants: they begin beside those of the real part, not above them."""
    bound = 1 / math.sqrt(weight[0].numel())
    with torch.no_grad():
        weight.uniform_(-bound, bound)
