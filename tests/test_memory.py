"""`keep_freed_memory`: new tensors take the pages of freed ones. `fresh`: large tensors lie on huge pages."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reqnn.memory import LARGE, fresh

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


HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")

FRESH = """
import resource
import torch
from reqnn.memory import fresh

x = torch.empty(0)

def faults(new):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    new(5, 3_000_000).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(lambda *shape: fresh(x, *shape)), faults(x.new_empty))
"""


@pytest.mark.skipif(not HUGE.exists() or "[madvise]" not in HUGE.read_text(), reason="huge pages are not given on request")
def test_large_tensors_lie_on_huge_pages() -> None:
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    huge, ordinary = map(int, done.stdout.split())
    assert huge < ordinary / 4


@pytest.mark.parametrize("count", [3, LARGE // 4, LARGE // 4 + 1])
def test_fresh_tensors_are_as_asked_for(count: int) -> None:
    like = torch.ones(2, requires_grad=True)
    found = fresh(like, count)
    assert (found.shape, found.dtype, found.requires_grad) == ((count,), torch.float32, False)
    assert float(found.fill_(2).sum(dtype=torch.float64)) == 2 * count
