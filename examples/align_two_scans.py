"""The rotation between two scans of one object, without matched points and without a trained network.

python examples/align_two_scans.py
"""

import math

import torch

import reqnn

torch.manual_seed(0)
surface = reqnn.data.surfaces(1, 2048)[0][0]  # (2048, 3): what two scanners see
first, second = surface[:1024], surface[1024:]  # no point in common

rotation = reqnn.quaternion.random_matrix(dtype=torch.float64)
shift = torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64)
second = second @ rotation.T + shift

found = reqnn.align(None, first, second)
difference = reqnn.quaternion.from_matrix(found.rotation @ rotation.T)
error = math.degrees(reqnn.quaternion.to_axis_angle(difference)[1])
print(f"rotation found to {error:.2f}°, confidence {found.confidence:.2f}, residual {found.residual:.3f}")
print(found.matrix)
assert error < 5
assert not found.ambiguous

ball = torch.nn.functional.normalize(torch.randn(1024, 3, dtype=torch.float64), dim=-1)  # has no orientation
unsure = reqnn.align(None, ball[:512], ball[512:])
print(f"a ball: ambiguous {unsure.ambiguous}; {unsure.reason}")
assert unsure.ambiguous
