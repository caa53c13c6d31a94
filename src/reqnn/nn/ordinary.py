"""The ordinary code of a block that a fused one stands for, run with the parts that the fused one has now."""

from __future__ import annotations

from typing import Any

from torch import nn


def run_ordinary(original: nn.Module, block: nn.Module, *args: Any) -> Any:
    """What the forward of `original` gives with the submodules and the mode of `block`.

    Submodules may have been exchanged or put into a mode of their own since the block was made, and a replica of the block on
    another device has its own; so they are taken from it anew each time, and none is changed.
    """
    twin = object.__new__(type(original))
    twin.__dict__ = {
        **original.__dict__,
        "_modules": {**original._modules, **block._modules},
        "training": block.training,
    }
    return twin.forward(*args)
