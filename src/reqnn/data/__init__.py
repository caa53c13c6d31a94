"""Point clouds to train on and to try things with."""

from reqnn.data.digits import digits
from reqnn.data.surfaces import surfaces

__all__ = ["digits", "surfaces"]
