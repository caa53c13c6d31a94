"""Normalisation: the original's own for the real part; the imaginary one is brought to unit size at each place.

    s′ = BN(s) with gamma and beta,    v′ = v / √(1/C Σ_c ‖v_c‖² + ε)

No statistics of the batch are needed for the imaginary part: what it divides by is invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.nn.full_parts import join, parts
from reqnn.rules.full.base import full, unit_size
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.tensor import QuaternionTensor as Q


def _normed(x: Q, norm: Callable[[Tensor], Tensor], axis: int) -> Q:
    real, imaginary = parts(x)
    if real is None:
        raise NoRuleError("a normalisation of pure quaternions: it acts on real parts, which the first linear layer makes")
    return join(x, norm(real), unit_size(x, imaginary, axis, "norm"), axis)


@full.rule("batch_norm", row="Batch-normalization")
def batch_norm(x: Q, *args: Any, **kwargs: Any) -> Q:
    """The ordinary batch-norm, with its statistics, gamma and beta, of the real part."""
    refuse_elsewhere(x, 1)
    return _normed(x, lambda real: F.batch_norm(real, *args, **kwargs), 1)


@full.rule("batch_norm_by", row="Batch-normalization")
def batch_norm_by(x: Q, layer: Callable[[Tensor], Tensor]) -> Q:
    """A batch-norm that is no call of ``F.batch_norm``: one whose statistics several processes share."""
    refuse_elsewhere(x, 1)
    return _normed(x, layer, 1)


@full.rule("group_norm", row="Group normalization", extension=True)
def group_norm(x: Q, *args: Any, **kwargs: Any) -> Q:
    """The ordinary group norm of the real part."""
    refuse_elsewhere(x, 1)
    return _normed(x, lambda real: F.group_norm(real, *args, **kwargs), 1)


@full.rule("instance_norm", row="Instance normalization", extension=True)
def instance_norm(x: Q, *args: Any, **kwargs: Any) -> Q:
    """The ordinary instance norm of the real part."""
    refuse_elsewhere(x, 1)
    return _normed(x, lambda real: F.instance_norm(real, *args, **kwargs), 1)


@full.rule("layer_norm", row="Layer normalization", extension=True)
def layer_norm(x: Q, normalized_shape: Sequence[int], *args: Any, **kwargs: Any) -> Q:
    """The ordinary layer norm of the real part; the imaginary one over its last axis."""
    return _normed(x, lambda real: F.layer_norm(real, tuple(normalized_shape), *args, **kwargs), x.rank - 1)


@full.rule("rms_norm", row="Layer normalization", extension=True)
def rms_norm(x: Q, normalized_shape: Sequence[int], *args: Any, **kwargs: Any) -> Q:
    """The ordinary RMS norm of the real part; the imaginary one over its last axis."""
    return _normed(x, lambda real: F.rms_norm(real, list(normalized_shape), *args, **kwargs), x.rank - 1)
