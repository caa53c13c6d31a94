"""The algebra of quaternions H and the rotations they stand for (paper, section 3.1 and appendix A).

A quaternion q = w + x i + y j + z k is the last axis of a tensor, in the order (w, x, y, z); all functions are pure,
differentiable, and take any batch shape `...`. A rotation is a unit quaternion R = e^{o θ/2}; -R is the same rotation.
"""

from __future__ import annotations

from collections.abc import Sequence

import roma
import torch
from torch import Tensor

from reqnn.errors import InputError


def add(p: Tensor, q: Tensor) -> Tensor:
    """Sum p + q, part by part: (..., 4), (..., 4) -> (..., 4) (appendix A)."""
    return _last_axis(p, 4, "p") + _last_axis(q, 4, "q")


def scale(factor: Tensor | float, q: Tensor) -> Tensor:
    """Product λ q with a real number λ: a number or (...), (..., 4) -> (..., 4) (appendix A)."""
    q = _last_axis(q, 4, "q")
    return factor[..., None] * q if isinstance(factor, Tensor) else factor * q


def multiply(p: Tensor, q: Tensor) -> Tensor:
    """Hamilton product p q, with i² = j² = k² = ijk = -1: (..., 4), (..., 4) -> (..., 4) (appendix A)."""
    p, q = torch.broadcast_tensors(_last_axis(p, 4, "p"), _last_axis(q, 4, "q"))
    (a, v), (b, w) = (p[..., :1], p[..., 1:]), (q[..., :1], q[..., 1:])
    return torch.cat((a * b - (v * w).sum(-1, keepdim=True), a * w + b * v + torch.linalg.cross(v, w)), dim=-1)


def conjugate(q: Tensor) -> Tensor:
    """Conjugate q̄ = w - x i - y j - z k: (..., 4) -> (..., 4) (section 3.1)."""
    q = _last_axis(q, 4, "q")
    return torch.cat((q[..., :1], -q[..., 1:]), dim=-1)


def norm(q: Tensor) -> Tensor:
    """Norm ‖q‖ = √(q q̄), whose gradient at q = 0 is taken as 0: (..., 4) -> (...) (section 3.1)."""
    return torch.linalg.vector_norm(_last_axis(q, 4, "q"), dim=-1)


def inverse(q: Tensor) -> Tensor:
    """Inverse q⁻¹ = q̄ / ‖q‖², not finite for q = 0: (..., 4) -> (..., 4) (appendix A)."""
    return conjugate(q) / q.square().sum(-1, keepdim=True)


def exp(q: Tensor) -> Tensor:
    """Exponential e^{w + v} = e^w (cos ‖v‖ + sin ‖v‖ v/‖v‖): (..., 4) -> (..., 4) (section 3.1)."""
    v = imaginary(q)
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return q[..., :1].exp() * torch.cat((length.cos(), torch.sinc(length / torch.pi) * v), dim=-1)


def log(q: Tensor) -> Tensor:
    """Principal logarithm log q = ln ‖q‖ + o θ/2 of the polar form, so that e^{log q} = q: (..., 4) -> (..., 4)."""
    w, v = q[..., :1], imaginary(q)
    length, at_real = _nonzero_length(v)
    # θ/2 over ‖v‖, continued to 1/w on the positive real axis, where the gradient is finite too
    on_axis = at_real & (w > 0)
    ratio = torch.where(on_axis, 1 / torch.where(on_axis, w, 1), torch.atan2(length, w) / length)
    vector = ratio * v + torch.pi * _first_axis(v) * (at_real & (w < 0))
    return torch.cat((norm(q)[..., None].log(), vector), dim=-1)


def polar(q: Tensor) -> tuple[Tensor, Tensor]:
    """Polar decomposition q = e^{o θ/2} of a unit quaternion: (..., 4) -> o (..., 3), θ (...) in [0, 2π] (section 3.1).

    For real q any axis o will do: it is i.
    """
    return polar_form(q)[1:]


def polar_form(q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Polar form q = ‖q‖ e^{o θ/2} of any quaternion: (..., 4) -> norm (...), axis o (..., 3), angle θ (...)."""
    v = imaginary(q)
    length, at_real = _nonzero_length(v)
    axis = torch.where(at_real, _first_axis(v), v / length)
    w = q[..., :1]
    w = torch.where(at_real & (w == 0), 1.0, w)  # the angle of 0 is 0, and so is its gradient
    angle = 2 * torch.atan2(torch.where(at_real, 0.0, length), w)
    return norm(q), axis, angle[..., 0]


def from_axis_angle(axis: Tensor, angle: Tensor | float) -> Tensor:
    """Rotation R = cos θ/2 + sin θ/2 o about o = axis/‖axis‖: (..., 3), (...) -> (..., 4) (section 3.1)."""
    axis = _last_axis(axis, 3, "axis")
    axis = axis / torch.linalg.vector_norm(axis, dim=-1, keepdim=True)
    half = torch.as_tensor(angle, dtype=axis.dtype, device=axis.device)[..., None] / 2
    vector = half.sin() * axis
    return torch.cat((half.cos().expand_as(vector[..., :1]), vector), dim=-1)


def to_axis_angle(r: Tensor) -> tuple[Tensor, Tensor]:
    """Axis and smallest angle of a rotation, the same for r and -r: (..., 4) -> (..., 3), (...) in [0, π]."""
    r = _last_axis(r, 4, "r")
    return polar(torch.where(r[..., :1] < 0, -r, r))


def from_matrix(matrix: Tensor) -> Tensor:
    """Unit quaternion of a rotation matrix, up to sign: (..., 3, 3) -> (..., 4)."""
    if matrix.shape[-2:] != (3, 3):
        raise InputError(f"A rotation matrix of shape (..., 3, 3) is needed, not {tuple(matrix.shape)}.")
    if not (torch.compiler.is_compiling() or matrix.is_meta):
        m = matrix.detach()
        defect = (m.mT @ m - torch.eye(3, dtype=m.dtype, device=m.device)).abs()
        if not bool((defect < 1e-3).all() and (torch.linalg.det(m) > 0).all()):
            raise InputError(
                "A matrix given to from_matrix is no rotation (MᵀM = 1, det M = +1 are needed). "
                "Project it first, for example with roma.special_procrustes."
            )
    return _from_xyzw(roma.rotmat_to_unitquat(matrix))


def to_matrix(r: Tensor) -> Tensor:
    """Rotation matrix M of a unit quaternion, M v = R v R̄: (..., 4) -> (..., 3, 3)."""
    matrix: Tensor = roma.unitquat_to_rotmat(_last_axis(r, 4, "r").roll(-1, dims=-1))
    return matrix


def pure(v: Tensor) -> Tensor:
    """Pure quaternion 0 + x i + y j + z k of a point (x, y, z): (..., 3) -> (..., 4) (section 3.1)."""
    v = _last_axis(v, 3, "v")
    return torch.cat((torch.zeros_like(v[..., :1]), v), dim=-1)


def imaginary(q: Tensor) -> Tensor:
    """Imaginary parts (x, y, z): (..., 4) -> (..., 3) (section 3.1)."""
    return _last_axis(q, 4, "q")[..., 1:]


def rotate(r: Tensor, v: Tensor) -> Tensor:
    """Rotation R v R̄ of the pure quaternions v by unit quaternions R: (..., 4), (..., 3) -> (..., 3) (equation 1)."""
    return imaginary(multiply(multiply(r, pure(v)), conjugate(r)))


def random_rotation(
    shape: int | Sequence[int] = (),
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Unit quaternions drawn uniformly on S³, hence rotations uniform on SO(3): (*shape, 4)."""
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return _from_xyzw(roma.random_unitquat(size, dtype=dtype, device=device, generator=generator))


def random_matrix(
    shape: int | Sequence[int] = (),
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Rotation matrices drawn uniformly on SO(3): (*shape, 3, 3)."""
    return to_matrix(random_rotation(shape, generator, dtype, device))


def _from_xyzw(q: Tensor) -> Tensor:
    return q.roll(1, dims=-1)  # roma has the real part last; only this function and `to_matrix` know


def _nonzero_length(v: Tensor) -> tuple[Tensor, Tensor]:
    """‖v‖ with 1 in place of 0, and where that was: safe to divide by, also in the gradient."""
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return torch.where(length == 0, 1.0, length), length == 0


def _first_axis(v: Tensor) -> Tensor:
    return torch.eye(3, dtype=v.dtype, device=v.device)[0].expand_as(v)


def _last_axis(x: Tensor, size: int, name: str) -> Tensor:
    if not isinstance(x, Tensor) or x.ndim == 0 or x.shape[-1] != size:
        given = f"a tensor of shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        kind = "a quaternion in the order (w, x, y, z)" if size == 4 else "a 3-vector"
        way = "use pure(v) for a 3-vector" if size == 4 else "use imaginary(q) for a quaternion"
        raise InputError(f"{name} is {given}; the last axis must be {kind}, of size {size}: {way}, or move that axis last.")
    if not x.is_floating_point():
        raise InputError(f"{name} has dtype {x.dtype}; a floating one is needed: call {name}.float() first.")
    return x
