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

from reqnn.errors import InputError
from reqnn.rules.algebra.products import cross_of_elements
from reqnn.rules.paper.base import paper


def cross_product(a: Any, b: Any) -> Any:
    """a × b of each pair of elements of two tensors of quaternion features of one shape, or shapes that broadcast.

    Of real tensors: along their last axis, which must have size 3.
    """
    if has_torch_function((a, b)):
        return handle_torch_function(cross_product, (a, b), a, b)
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[-1:] == b.shape[-1:] == (3,)):
        raise InputError("a cross product needs two tensors of quaternions, or two real ones with vectors on an axis of size 3")
    return torch.linalg.cross(a, b, dim=-1)


paper.rule("cross_product", row="Cross product", extension=True)(cross_of_elements)
