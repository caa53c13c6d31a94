"""Small networks that hold one call each, revised by the rules of Vector Neurons."""

import reqnn
from rules.revised_calls import Calls, revised_call

__all__ = ["Calls", "on_quaternions", "rules"]


def rules(**options):
    return reqnn.get_rules("vector-neurons").with_options(**options)


def on_quaternions(function, x, seed=0, strict=False, batch=None, **options):
    """See `revised_call`."""
    return revised_call(rules(**options), function, x, seed, strict, batch)
