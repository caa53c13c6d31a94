"""What the tests do with a network over and over."""

import functools

import roma
import torch
from torch import nn

import reqnn
from networks import POINTS, Case, flat

torch.set_num_threads(1)  # tensors this small gain nothing from threads, and lose much where other work runs beside

ROTATIONS = roma.random_rotmat(3, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
ORDER = torch.randperm(POINTS, generator=torch.Generator().manual_seed(8))


def example(case: Case, **inputs):
    """Return an example as `revise` takes it: one tensor, or a tuple."""
    given = case.inputs(**{"dtype": torch.float32} | inputs)
    return given if len(given) > 1 else given[0]


def calibrate(net: nn.Module, inputs: tuple) -> nn.Module:
    """Set every running statistic to what these inputs give, by one training pass; the network ends in eval mode."""
    for module in net.modules():
        if hasattr(module, "momentum"):
            module.momentum = 1.0
    net.train()
    with torch.no_grad():
        torch.manual_seed(5)
        net(*inputs)
    return net.eval()


@functools.cache
def revised(case: Case) -> nn.Module:
    """Revise the network of a case, in float64 and calibrated; shared, so tests copy it before they change it."""
    net = reqnn.revise(case.model(), example(case), **case.options).double()
    return calibrate(net, case.inputs())


@torch.no_grad()
def outputs(net: nn.Module, inputs: tuple) -> list[torch.Tensor]:
    """List the outputs of a network; one that samples at random samples alike each time."""
    torch.manual_seed(5)
    return flat(net(*inputs))


def error(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest difference, relative to the largest value."""
    return float((a.detach() - b.detach()).abs().max() / a.detach().abs().max())


def spread(a: torch.Tensor) -> float:
    """How much outputs of different clouds differ, relative to the largest value."""
    return float((a - a.mean(0)).abs().amax() / a.abs().max())
