"""The rotation and translation between two clouds, read off features that turn with them."""

from reqnn.alignment.result import Alignment
from reqnn.alignment.solve import align

__all__ = ["Alignment", "align"]
