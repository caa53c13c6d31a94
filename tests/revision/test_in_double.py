"""Inside `InDouble` no number is rounded to float32."""

import pytest
import torch

from reqnn.revision.in_double import InDouble

X = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
CASTS = {
    "float": lambda x: x.float(),
    "to": lambda x: x.to(torch.float32),
    "to dtype=": lambda x: x.to(dtype=torch.float32),
    "to device and dtype": lambda x: x.to("cpu", torch.float32),
    "type": lambda x: x.type(torch.float32),
    "type_as": lambda x: x.type_as(torch.zeros(1)),
    "sum with float32": lambda x: x + torch.zeros(5, dtype=torch.float32),
    "whole numbers": lambda x: x + torch.arange(5).float() - torch.arange(5),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
def test_casts_keep_all_digits(cast):
    assert not torch.equal(CASTS["to"](X).double(), X)  # outside they do not
    with InDouble():
        found = cast(X)
    torch.testing.assert_close(found, X, rtol=0, atol=1e-15)
