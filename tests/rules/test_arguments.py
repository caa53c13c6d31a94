"""Arguments that change a result are obeyed or refused, never dropped."""

import pytest
import torch
import torch.nn.functional as F

from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor


def quaternion(*shape, seed=0):
    return QuaternionTensor(torch.randn(3, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def test_no_argument_is_dropped():
    """Arguments that change a result are obeyed or refused."""
    x, ends = quaternion(2, 6, 5), quaternion(2, 1, 5, seed=1)
    longer = x.diff(dim=1, prepend=ends, append=ends)
    assert longer.shape == (2, 7, 5)
    torch.testing.assert_close(longer.components[:, :, 0], x.components[:, :, 0] - ends.components[:, :, 0])
    for spread in (torch.var_mean, torch.std_mean):
        assert [tuple(part.shape) for part in spread(x, 1, True, True)] == [(2, 1, 5), (2, 1, 5)]
        assert [tuple(part.shape) for part in spread(x, dim=1, keepdim=True)] == [(2, 1, 5), (2, 1, 5)]
    wrong = QuaternionTensor(torch.tensor([[1.0, 1.0], [float("inf"), 1.0], [0.0, float("nan")]]))
    assert (wrong.isinf().tolist(), wrong.isnan().tolist()) == ([True, False], [False, True])
    with pytest.raises(NoRuleError, match="multiple"):
        F.group_norm(x.transpose(1, 2), 2)
    with pytest.raises(NoRuleError, match="repeat the keys"):
        F.scaled_dot_product_attention(x, x, x, enable_gqa=True)
