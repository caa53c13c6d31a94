"""Extension: the cross product of features, a × b, which rotates with a and b.

It is half the commutator of pure quaternions, (ab − ba)/2, and the one product of two vectors that is a vector. The paper's
rules are equivariant to reflections, too, so that what they make of a mirror-symmetric cloud as a whole lies in its mirror
plane; a × b of vectors in that plane stands out of it. Under a reflection M it does not follow: (Ma) × (Mb) = −M(a × b).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from reqnn.errors import InputError, NoRuleError
from reqnn.rules.algebra.base import align
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q


def cross_product(a: Any, b: Any) -> Any:
    """a × b of each pair of elements of two tensors of quaternion features of one shape, or shapes that broadcast.

    Of real tensors: along their last axis, which must have size 3.
    """
    if has_torch_function((a, b)):
        return handle_torch_function(cross_product, (a, b), a, b)
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[-1:] == b.shape[-1:] == (3,)):
        raise InputError("a cross product needs two tensors of quaternions, or two real ones with vectors on an axis of size 3")
    return torch.linalg.cross(a, b, dim=-1)


@paper.rule("cross_product", row="Cross product", extension=True)
def cross_product_rule(a: Any, b: Any) -> Q:
    """Element by element; scalars among them have no direction, and real numbers neither."""
    if not (isinstance(a, Q) and isinstance(b, Q)) or 4 in (a.components.shape[0], b.components.shape[0]):
        raise NoRuleError("a cross product needs two tensors of vectors")
    axes = [None if x.axis is None else x.axis - x.rank for x in (a, b)]
    if a.vectors != b.vectors or axes[0] != axes[1]:
        raise NoRuleError("a cross product of coordinates with features, or of coordinates on different axes")
    rank = max(a.rank, b.rank)
    out = torch.linalg.cross(align(a.components, rank), align(b.components, rank), dim=0)
    return a.like(out, axes[0], a.vectors)
