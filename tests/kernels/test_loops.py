"""A loop is compiled for one thread and for several: the same values, and two entries in numba's cache."""

import warnings

import pytest
import torch

from reqnn.kernels import edge_loops
from reqnn.kernels.edges import linear, weighted_sum
from reqnn.kernels.groups import from_index
from reqnn.kernels.power import Power


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


@pytest.mark.parametrize("stored", [False, True])
def test_relu_back_on_one_thread_and_several(stored):
    generator = torch.Generator().manual_seed(0)
    shapes = ((150, 3, 40),) if stored else ((50, 3, 40), (30, 3, 40))
    tensors = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in (*shapes, (24, 40))]
    groups = from_index(torch.rand(30, 50, generator=generator).argsort(1)[:, :5], tensors[0])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            *ends, weight = leaves = [x.clone().requires_grad_() for x in tensors]
            power, z = Power(torch.ones(40, dtype=torch.float64), 1e-3, 150.0), None if stored else ends[1]
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numba warns of a loop that it cannot run on several threads
                out = linear(ends[0], z, weight, power, 1.0, groups.stored if stored else groups)
                found.append(torch.autograd.grad(out.square().sum(), leaves))
    finally:
        torch.set_num_threads(before)
    for alone, shared in zip(*found, strict=True):
        torch.testing.assert_close(alone, shared, rtol=1e-12, atol=1e-12)
