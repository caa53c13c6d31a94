"""Turn an allocation beyond the available memory into an exception instead of the end of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

KEPT_FREE = 0.1  # of the memory that is available


class OutOfMemory(Exception):
    """A call asked for more memory than is available."""


def available_memory() -> int:
    """Bytes that can be allocated without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Raise `OutOfMemory` for allocations beyond the available memory, by a limit on address space (Linux only)."""
    import psutil

    try:
        import resource
    except ImportError:  # not on this system
        resource = None  # type: ignore[assignment]
    before = None
    if resource is not None:
        before = resource.getrlimit(resource.RLIMIT_AS)
        wanted = psutil.Process().memory_info().vms + int(available_memory() * (1 - KEPT_FREE))
        if before[1] != resource.RLIM_INFINITY:
            wanted = min(wanted, before[1])
        try:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, before[1]))
        except (ValueError, OSError):
            before = None
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(_first_line(error)) from error
    except RuntimeError as error:
        if any(words in str(error) for words in ("can't allocate memory", "bad_alloc", "not enough memory")):
            raise OutOfMemory(_first_line(error)) from error
        raise
    finally:
        if resource is not None and before is not None:
            resource.setrlimit(resource.RLIMIT_AS, before)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    line = text[0] if text else type(error).__name__
    return line.partition("DefaultCPUAllocator: ")[2] or line
