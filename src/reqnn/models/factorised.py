"""The ordinary DGCNN with its edge convolutions factorised: the same network, sooner and in less memory."""

from __future__ import annotations

import copy

from torch import nn

from reqnn.nn.real_edge_conv import FactorisedEdgeConv

from .dgcnn import EdgeConv


def factorise(model: nn.Module) -> nn.Module:
    """A copy of a network in which every `EdgeConv` is a `FactorisedEdgeConv`; names of parameters and buffers stay."""
    model = copy.deepcopy(model)
    if isinstance(model, EdgeConv):
        return FactorisedEdgeConv.from_block(model)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, EdgeConv):
                setattr(module, name, FactorisedEdgeConv.from_block(child))
    return model
