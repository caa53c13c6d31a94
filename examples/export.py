"""Export a revised network to a file that runs with torch alone, and use it: clouds of any size, place and orientation.

python examples/export.py
"""

import json
import tempfile
from pathlib import Path

import torch

import reqnn

torch.manual_seed(0)
net = reqnn.create_model("pointnet", equivariant=True, rules="full", width=0.125, num_classes=4)
clouds = reqnn.data.surfaces(16, 64, dtype=torch.float32)[0]
net.train()(clouds)  # in place of a training: batch-norm statistics

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "net.pt2"
    proof = reqnn.export(net, clouds[:2], path, classes=["bolt", "cup", "nut", "plate"])["proof"]
    print(f"{path.stat().st_size / 1e6:.1f} MB, against the network {proof['parity']:.0e}, copies {proof['invariance']:.0e}")

    extra = {"reqnn.json": ""}  # from here on reqnn is not needed
    module = torch.export.load(path, extra_files=extra).module()
    classes = json.loads(extra["reqnn.json"])["classes"]
    scan = reqnn.data.surfaces(1, 200, seed=3, dtype=torch.float32)[0]
    rotation = reqnn.quaternion.random_matrix(1).float()
    first, second = module(scan)[0], module(250 * scan @ rotation.mT + 40)[0]
    print(f"{classes[first.argmax()]}, {first.max():.4f}; rotated, moved, in millimetres: {second.max():.4f}")
    assert (first - second).abs().max() < 1e-3
