"""Vectors inside a revised network, and the points that they belong to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reqnn.tensor import QuaternionTensor
from reqnn.train.prediction import evaluating


@torch.no_grad()
def point_features(net: nn.Module, points: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Submodule → places (M, 3) and, channel by channel, the longest first, vectors (C, M, 3), if its features have places.

    These are the cloud (1, N, 3) itself, or what a submodule takes or returns with one vector per point: sampled centres.
    """
    places: dict[int, Tensor] = {}  # number of points → where they are, the latest last
    found: dict[str, tuple[Tensor, Tensor]] = {}

    def look(name: str, values: Any) -> None:
        given = values if isinstance(values, (tuple, list)) else (values,)
        tensors = [x for x in given if isinstance(x, QuaternionTensor) and x.dim() == 3 and len(x) == 1]
        vectors = [x.imaginary()[:, 0] for x in tensors]  # (3, C, M), or (3, M, C)
        for x in vectors:
            if 1 < x.numel() // 3 == max(x.shape[1:]):
                places.pop(x.numel() // 3, None)
                places[x.numel() // 3] = x.reshape(3, -1).T.clone()
        for x in vectors:
            count = next((size for size in reversed(places) if size in x.shape[1:]), None)
            if name and count is not None and x.numel() > 3 * count:
                channels = (x if x.shape[2] == count else x.transpose(1, 2)).permute(1, 2, 0)
                strongest = channels.norm(dim=-1).mean(1).argsort(descending=True)
                found[name] = places[count], channels[strongest].clone()

    handles = []
    for name, module in net.named_modules():
        if name:
            handles.append(module.register_forward_pre_hook(lambda _, args: look("", args)))
            handles.append(module.register_forward_hook(lambda _, args, out, name=name: look(name.removeprefix("model."), out)))
    try:
        with evaluating(net):
            net(points)
    finally:
        for handle in handles:
            handle.remove()
    return found
