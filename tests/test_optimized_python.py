"""Under ``python -O``, which leaves assertions out, a revised network computes the same."""

import json
import os
import subprocess
import sys

import torch
from torch import nn

import reqnn


class InPlace(nn.Module):
    """Writes to features from which a batch-norm's output is still to be computed, to a view of them, and to coordinates."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.head = nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, points):
        x = self.conv(points.transpose(1, 2))
        y = self.bn(x)
        x.mul_(3)
        z = torch.relu(self.bn(x))
        x[:, :8] *= 2
        return self.head((y + torch.relu(y) + z + x).amax(-1))


def outputs():
    """Logits in training and in eval mode."""
    torch.manual_seed(0)
    points = torch.randn(4, 64, 3)
    net = reqnn.revise(InPlace(), points)
    with torch.no_grad():
        return [net.train()(points).tolist(), net.eval()(points).tolist()]


def test_a_network_that_writes_in_place():
    script = f"import json, {__name__} as test; print(json.dumps([__debug__, test.outputs()]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout) == [False, outputs()]
