"""Table 1, "Batch-normalization": norm(f_v) = f_v / √(E_j[‖f_v⁽ʲ⁾‖²] + ε) (paper, section 3.3, equation 6; appendix C.3).

No mean is subtracted and there are no gamma and beta: both would be fixed directions or are taken up by the next layer.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.nn.batch_norm import normalize_quaternions
from reqnn.rules.paper.base import paper
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.tensor import QuaternionTensor as Q


@paper.rule("batch_norm", row="Batch-normalization")
def batch_norm(
    x: Q,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *unused: Any,
) -> Any:
    """The functional form; modules are swapped for `reqnn.nn.QuaternionBatchNorm` in the dry run.

    `running_var` is the running E‖f‖²; `running_mean` is not used, a bias goes.
    """
    refuse_elsewhere(x, 1)
    plan, held = x.context.plan, running_var if running_var is not None else weight
    if plan is not None and plan.to_batch_norm(held, x.components.shape[2]):
        return x
    x.context.drop_bias(bias)
    out = normalize_quaternions(x, running_var, training, momentum, eps)
    return out if weight is None else out * weight.reshape(-1, *[1] * (x.rank - 2))
