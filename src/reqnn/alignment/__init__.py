"""The rotation and translation between two clouds, from rotation-equivariant features."""

from reqnn.alignment.result import Alignment
from reqnn.alignment.solve import align

__all__ = ["Alignment", "align"]
