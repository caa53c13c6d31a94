"""Normalisation: the original's own for the real part; the imaginary one is brought to unit size at each place.

    s′ = BN(s) with gamma and beta,    v′ = v / √(1/C Σ_c ‖v_c‖² + ε)

No statistics of the batch are needed for the imaginary part: what it divides by is invariant. Pure quaternions, and
coordinates with numbers beside them, are normalised by the paper's rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.nn.full_parts import join, parts
from reqnn.rules.full.base import by_the_paper, full, unit_size
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.tensor import QuaternionTensor as Q


@full.rule("batch_norm_by", row="Batch-normalization")
def batch_norm_by(x: Q, layer: Callable[[Tensor], Tensor], axis: int = 1) -> Q:
    """A norm of the real part that is any function: a batch-norm whose statistics several processes share, say."""
    refuse_elsewhere(x, axis)
    real, imaginary = parts(x)
    if real is None:
        raise NoRuleError("a normalisation of pure quaternions: it acts on real parts, which the first linear layer makes")
    return join(x, layer(real), unit_size(x, imaginary, axis, "norm"), axis)


_LAST = ("layer_norm", "rms_norm")  # over channels on the last axis; the others on axis 1


def norm(name: str, x: Q, *args: Any, **kwargs: Any) -> Any:
    """``F.batch_norm`` … of the real part, with its gain and shift."""
    axis = x.rank - 1 if name in _LAST else 1
    if parts(x)[0] is None or x.holds_vectors(axis):
        return by_the_paper(name, x, *args, **kwargs)
    return batch_norm_by(x, lambda real: getattr(F, name)(real, *args, **kwargs), axis)


full.each("batch_norm", row="Batch-normalization")(norm)
full.each("group_norm", row="Group normalization", extension=True)(norm)
full.each("instance_norm", row="Instance normalization", extension=True)(norm)
full.each(*_LAST, row="Layer normalization", extension=True)(norm)
