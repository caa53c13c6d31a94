"""`keep_freed_memory`: new tensors take the pages of freed ones."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource
import torch
from reqnn.memory import keep_freed_memory

if {keep}:
    keep_freed_memory()
x = torch.ones(5_000_000, dtype=torch.float64)

def passes(count):
    for _ in range(count):
        (x - 1).abs().max()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

print(-passes(4) + passes(8))
"""


def page_faults(keep: bool) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(keep=keep)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_freed_memory_is_used_again() -> None:
    assert page_faults(keep=True) < page_faults(keep=False) / 4
