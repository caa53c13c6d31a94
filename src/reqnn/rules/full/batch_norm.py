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


def _norm(name: str, row: str, last: bool = False) -> None:
    """A norm over channels, which stand on axis 1 or on the last one."""
    function = getattr(F, name)

    def apply(x: Q, *args: Any, **kwargs: Any) -> Any:
        if parts(x)[0] is None or x.holds_vectors(x.rank - 1 if last else 1):
            return by_the_paper(name, x, *args, **kwargs)
        return batch_norm_by(x, lambda real: function(real, *args, **kwargs), x.rank - 1 if last else 1)

    apply.__doc__ = f"``F.{name}`` of the real part, with its gain and shift."
    full.rule(name, row=row, extension=name != "batch_norm")(apply)


@full.rule("batch_norm_by", row="Batch-normalization")
def batch_norm_by(x: Q, layer: Callable[[Tensor], Tensor], axis: int = 1) -> Q:
    """A norm of the real part that is any function: a batch-norm whose statistics several processes share, say."""
    refuse_elsewhere(x, axis)
    real, imaginary = parts(x)
    if real is None:
        raise NoRuleError("a normalisation of pure quaternions: it acts on real parts, which the first linear layer makes")
    return join(x, layer(real), unit_size(x, imaginary, axis, "norm"), axis)


_norm("batch_norm", "Batch-normalization")
_norm("group_norm", "Group normalization")
_norm("instance_norm", "Instance normalization")
_norm("layer_norm", "Layer normalization", last=True)
_norm("rms_norm", "Layer normalization", last=True)
