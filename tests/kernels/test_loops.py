"""A loop is compiled for one thread and for several: the same values, and two entries in numba's cache."""

import torch

from reqnn.kernels import edge_loops
from reqnn.kernels.edges import weighted_sum


def test_one_thread_and_several():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(50, 6, generator=generator, dtype=torch.float64)
    index = torch.randint(0, 50, (40, 5), generator=generator)
    weights = torch.rand(40, 5, generator=generator, dtype=torch.float64)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            leaves = [y.clone().requires_grad_(), weights.clone().requires_grad_()]
            out = weighted_sum(leaves[0], index, leaves[1])
            found.append([out.detach(), *torch.autograd.grad(out.square().sum(), leaves)])
    finally:
        torch.set_num_threads(before)
    for alone, shared in zip(*found, strict=True):
        torch.testing.assert_close(alone, shared, rtol=1e-12, atol=1e-12)
    for loop in (edge_loops.weighted, edge_loops.weighted_back_y, edge_loops.weighted_back_w):
        assert loop.alone.signatures
        assert loop.shared.signatures
        assert not loop.alone.targetoptions.get("parallel")
        assert loop.shared.targetoptions["parallel"]
        assert loop.alone._cache._impl.filename_base != loop.shared._cache._impl.filename_base
