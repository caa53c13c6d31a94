"""Operations of a network, counted by hooks while it runs: multiply-adds, and FLOPs as the paper counts them.

The paper does not state its convention. This one reproduces all its figures to the two decimals that it prints:

| module | counts |
|---|---|
| convolution | multiply-adds, + 1 per output where it has a bias |
| Linear | 2 · in · out |
| batch-norm | 2 per element |
| LeakyReLU, as a module | 1 per element |
| functional calls, and what acts on quaternions without weights | nothing |

A layer on quaternions does its work once for each of the three imaginary parts. A module that is registered under two
names counts twice in the FLOPs (DGCNN's batch-norms are), and once in the multiply-adds.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from reqnn.tensor import QuaternionTensor
from reqnn.train.prediction import evaluating


class Operations(NamedTuple):
    """What one forward pass costs."""

    multiply_adds: int
    paper_flops: int


def count_operations(model: nn.Module, *inputs: Any) -> Operations:
    """Run a network once, in eval mode, and count the operations of its layers.

    k-NN, sampling and products of features (PointConv's features × weights) are not layers and do not count.
    """
    macs: Counter[nn.Module] = Counter()
    flops: Counter[nn.Module] = Counter()

    def count(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        multiply_adds, total = _cost(module, args[0], output)
        macs[module] += multiply_adds
        flops[module] += total

    handles = [module.register_forward_hook(count) for module in set(model.modules()) if _counts(module)]
    try:
        with torch.no_grad(), evaluating(model):
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    names = model.named_modules(remove_duplicate=False)
    return Operations(sum(macs.values()), sum(flops[module] for _, module in names))


def _counts(module: nn.Module) -> bool:
    return isinstance(module, (_ConvNd, nn.Linear, _BatchNorm, nn.LeakyReLU))


def _cost(module: nn.Module, x: Any, output: Any) -> tuple[int, int]:
    """Multiply-adds and the paper's FLOPs of one call."""
    quaternion = isinstance(output, QuaternionTensor)
    elements = _elements(output)
    if isinstance(module, _ConvNd):
        weights = module.weight[0].numel()  # in_channels / groups · kernel
        if module.transposed:
            weights, elements = module.weight[0].numel(), _elements(x)
        bias = _elements(output) if module.bias is not None else 0
        return elements * weights, elements * weights + bias
    if isinstance(module, nn.Linear):
        return elements * module.weight.shape[1], 2 * elements * module.weight.shape[1]
    if quaternion:
        return 0, 0
    return 0, elements * (2 if isinstance(module, _BatchNorm) else 1)


def _elements(x: Tensor) -> int:
    return x.components.numel() if isinstance(x, QuaternionTensor) else x.numel()
