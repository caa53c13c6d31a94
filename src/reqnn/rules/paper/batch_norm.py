"""Table 1, "Batch-normalization": norm(f_v) = f_v / √(E_j[‖f_v⁽ʲ⁾‖²] + ε) (paper, section 3.3, equation 6; appendix C.3).

No mean is subtracted and there are no gamma and beta: both would be fixed directions or are taken up by the next layer.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from reqnn.nn.batch_norm import normalize_quaternions
from reqnn.rules.paper.base import paper
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.rules.registry import arguments
from reqnn.tensor import QuaternionTensor as Q


@paper.rule("batch_norm", row="Batch-normalization")
def batch_norm(x: Q, *args: Any, **kwargs: Any) -> Any:
    """The functional form; modules are swapped for `reqnn.nn.QuaternionBatchNorm` in the dry run.

    `running_var` is the running E‖f‖²; `running_mean` is not used, a bias goes.
    """
    refuse_elsewhere(x, 1)
    call = arguments(F.batch_norm, (x, *args), kwargs)
    plan, held = x.context.plan, call.running_var if call.running_var is not None else call.weight
    if plan is not None and plan.to_batch_norm(held, x.components.shape[2]):
        return x
    x.context.drop_bias(call.bias)
    out = normalize_quaternions(x, call.running_var, call.training, call.momentum, call.eps)
    return out if call.weight is None else out * call.weight.reshape(-1, *[1] * (x.rank - 2))
