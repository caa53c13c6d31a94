"""The loops behind the factorised edge convolution; all the rest is in `rules.test_factorised`."""

import torch

from reqnn.nn.vector_edges import EdgeLengths, MeanOverEdges
from reqnn.points import knn


def cloud(seed=0, batch=2, points=6):
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_gradients_of_the_loops():
    generator = torch.Generator().manual_seed(0)
    ends = [torch.randn(2, 6, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    affine = [torch.randn(4, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    idx = knn(cloud(), cloud(), 3)
    assert torch.autograd.gradcheck(lambda y, z: EdgeLengths.apply(y, z, idx), ends[:2])
    assert torch.autograd.gradcheck(
        lambda *tensors: MeanOverEdges.apply(*tensors[:4], idx, *tensors[4:], (0.2, 1e-5, 1e-8)), (*ends, *affine)
    )
