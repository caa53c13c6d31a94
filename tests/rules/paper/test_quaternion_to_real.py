"""A log-softmax marks the end of a classifier: outside of a dry run quaternions do not reach it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from equivariance import draw
from reqnn.errors import NoRuleError


@pytest.mark.parametrize(
    "operation", [lambda x: F.log_softmax(x, dim=1), lambda x: torch.log_softmax(x, -1), nn.LogSoftmax(dim=1)]
)
def test_logits_have_to_be_real(operation):
    with pytest.raises(NoRuleError, match="input has to be real"):
        operation(draw(0, 2, 4))
