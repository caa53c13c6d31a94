"""Full quaternions a place a row: invariants of imaginary parts, and the gate, in one pass over memory each.

Rows are places, as in `reqnn.kernels.rows`: maps (*, 3, kinds·count), real parts (*, C), imaginary ones (*, 3, C).
Derivatives are by hand; each function has a plain-torch twin, its oracle and the path where a gradient of a gradient is wanted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn.kernels import full_loops
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.rows import safe_sqrt
from reqnn.kernels.run import run
from reqnn.memory import fresh


def invariants_reference(maps: Tensor, count: int) -> Tensor:
    """`invariants` in plain torch."""
    p, q, *r = maps.unflatten(-1, (-1, count)).unbind(-2)
    found = [safe_sqrt(p.square().sum(-2)), (p * q).sum(-2)]
    if r:
        found.append((torch.linalg.cross(p, q, dim=-2) * r[0]).sum(-2))
    return torch.cat(found, dim=-1)


def gate(real: Tensor) -> Tensor:
    """γ(s) = ½ + ½·s/√(1 + s²), how far the real part opens the imaginary one: a sigmoid without an exponential."""
    return 0.5 + 0.5 * real * (1 + real.square()).rsqrt()


def gated_reference(real: Tensor, imaginary: Tensor) -> Tensor:
    """`gated` in plain torch."""
    return imaginary * gate(real).unsqueeze(-2)


def unit_factor(power: Tensor, eps: float) -> Tensor:
    """1/√(p + ε), and 0 where √p ≤ eps^⅔ of the dtype: rounding, of a vector that a symmetry makes vanish, must not grow."""
    return torch.where(power > torch.finfo(power.dtype).eps ** (4 / 3), (power + eps).rsqrt(), 0)


def unit_reference(imaginary: Tensor, eps: float) -> Tensor:
    """`unit` in plain torch."""
    return imaginary * unit_factor(imaginary.square().sum(-2).mean(-1)[..., None, None], eps)


def _invariants(maps: Tensor, count: int) -> Tensor:
    out = fresh(maps, *maps.shape[:-2], maps.shape[-1])
    run(full_loops.row_invariants, maps.flatten(0, -3), count, out.flatten(0, -2))
    return out


def _invariants_back(gradient: Tensor, maps: Tensor, count: int) -> tuple[Tensor]:
    out = fresh(maps, *maps.shape)
    run(full_loops.row_invariants_back, maps.flatten(0, -3), count, gradient.flatten(0, -2), out.flatten(0, -3))
    return (out,)


def invariants(maps: Tensor, count: int) -> Tensor:
    """‖p‖, ⟨p, q⟩ and, where there is an r, ⟨p × q, r⟩ of every row. Shapes: maps (*, 3, kinds·count) → (*, kinds·count)"""
    out: Tensor = by_hand(_invariants, _invariants_back, (maps,), count, twin=invariants_reference)
    return out


def _unit(imaginary: Tensor, eps: float) -> Tensor:
    out = fresh(imaginary, *imaginary.shape)
    run(full_loops.unit, imaginary.flatten(0, -3), eps, out.flatten(0, -3))
    return out


def _unit_back(gradient: Tensor, imaginary: Tensor, eps: float) -> tuple[Tensor]:
    out = fresh(imaginary, *imaginary.shape)
    run(full_loops.unit_back, imaginary.flatten(0, -3), eps, gradient.flatten(0, -3), out.flatten(0, -3))
    return (out,)


def unit(imaginary: Tensor, eps: float) -> Tensor:
    """v·`unit_factor`(1/C Σ_c ‖v_c‖²) of every row. Shapes: imaginary (*, 3, C) → (*, 3, C)"""
    out: Tensor = by_hand(_unit, _unit_back, (imaginary,), eps, twin=unit_reference)
    return out


def _gated(real: Tensor, imaginary: Tensor) -> Tensor:
    out = fresh(imaginary, *imaginary.shape)
    run(full_loops.gated, real.flatten(0, -2), imaginary.flatten(0, -3), out.flatten(0, -3))
    return out


def _gated_back(gradient: Tensor, real: Tensor, imaginary: Tensor, own: bool) -> tuple[Tensor, Tensor]:
    of_real, of_imaginary = fresh(real, *real.shape), gradient if own else fresh(imaginary, *imaginary.shape)
    rows = (real.flatten(0, -2), imaginary.flatten(0, -3), gradient.flatten(0, -3))
    run(full_loops.gated_back, *rows, of_real.flatten(0, -2), of_imaginary.flatten(0, -3))
    return of_real, of_imaginary


def gated(real: Tensor, imaginary: Tensor) -> Tensor:
    """γ(s)·v. Shapes: real (*, C), imaginary (*, 3, C) → (*, 3, C)"""
    out: Tensor = by_hand(_gated, _gated_back, (real, imaginary), twin=gated_reference, reuses=True)
    return out
