"""The loops behind the factorised edge convolution; all the rest is in `rules.test_factorised`."""

import pytest
import torch

from reqnn.nn.full_edges import EdgeInvariants, PoolEdges, Pooling
from reqnn.points import knn


def cloud(seed=0, batch=2, points=6):
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kinds", [2, 3])
def test_gradients_of_the_invariants(kinds):
    generator = torch.Generator().manual_seed(0)
    ends = [torch.randn(2, 6, 3, kinds * 4, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    idx = knn(cloud(), cloud(), 3)
    assert torch.autograd.gradcheck(lambda *ends: EdgeInvariants.apply(*ends, idx, 4), ends)


@pytest.mark.parametrize("unit", [0.0, 1e-3])
@pytest.mark.parametrize("batch_statistics", [True, False])
def test_gradients_of_the_pooling(unit, batch_statistics):
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    idx = knn(cloud(), cloud(), 3)
    tensors = [drawn(2, 6, 3, 4), drawn(2, 6, 4), drawn(2, 6, 4), drawn(2, 6, 3, 4), drawn(2, 6, 3, 4), drawn(4), drawn(4)]
    running = None if batch_statistics else (torch.zeros(4).double(), torch.ones(4).double())
    pooling = Pooling(0.2, 1e-5, unit, running)
    assert torch.autograd.gradcheck(lambda t, *rest: PoolEdges.apply(t.clone(), *rest, idx, pooling)[:2], tensors)
