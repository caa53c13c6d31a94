"""Tensors of quaternions, what travels with them, and how torch functions reach their rules."""

from reqnn.tensor.context import Context
from reqnn.tensor.dispatch import quaternions
from reqnn.tensor.quaternion_tensor import QuaternionTensor, adopt, from_real, safe_sqrt

__all__ = ["Context", "QuaternionTensor", "adopt", "from_real", "quaternions", "safe_sqrt"]
