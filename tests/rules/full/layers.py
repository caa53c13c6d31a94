"""Small networks that hold one call each, revised by the rules of full quaternions, and features with a real part."""

import torch

import reqnn
from equivariance import draw
from reqnn.tensor import QuaternionTensor
from rules.revised_calls import revised_call


def rules(**options):
    return reqnn.get_rules("full").with_options(**options)


def on_quaternions(function, x, seed=0, strict=False, batch=None, **options):
    """See `revised_call`."""
    return revised_call(rules(**options), function, x, seed, strict, batch)


def general(seed, *shape, dtype=torch.float64):
    """Quaternion features of that shape, real parts too."""
    return QuaternionTensor(
        torch.cat([draw(seed + 1000, *shape, dtype=dtype).components[:1], draw(seed, *shape, dtype=dtype).components])
    )
