"""The layers that rules put in place, also for networks written with quaternions from the start."""

from reqnn.nn.activation import QuaternionReLU
from reqnn.nn.batch_norm import QuaternionBatchNorm
from reqnn.nn.coordinates import in_principal_frames
from reqnn.nn.quaternion_to_real import Quaternion2Real
from reqnn.nn.removed import Removed

__all__ = ["Quaternion2Real", "QuaternionBatchNorm", "QuaternionReLU", "Removed", "in_principal_frames"]
