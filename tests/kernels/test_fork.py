"""A process that is forked after a forward pass on several threads, and workers of a DataLoader."""

import os
import subprocess
import sys

import pytest

CODE = """
import os
import torch
import reqnn
from reqnn.points import knn

torch.set_num_threads(2)
torch.manual_seed(0)
net = reqnn.create_model("dgcnn", equivariant=True, num_classes=5, k=8, width=0.25).eval()
points = torch.randn(2, 150, 3)
with torch.no_grad():
    expected = net(points)
child = os.fork()
if child == 0:
    with torch.no_grad():
        os._exit(0 if torch.allclose(net(points), expected, atol=1e-5) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Clouds(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        with torch.no_grad():
            return net(points)[0], knn(points, points, 5)


loader = torch.utils.data.DataLoader(Clouds(), batch_size=2, num_workers=1, multiprocessing_context="fork")
for logits, index in loader:
    assert torch.allclose(logits, expected[:1].expand(2, -1), atol=1e-5)
    assert torch.equal(index[0], knn(points, points, 5))
assert torch.get_num_threads() == 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_after_a_forward_pass():
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=environment, timeout=300)
