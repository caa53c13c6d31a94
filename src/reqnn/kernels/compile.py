"""How kernels are compiled: once per machine if a cache can be written, without the GIL, with exact arithmetic.

x / 0 is infinite, as in numpy: a check for 0 would keep a loop from being vectorised.

The cache notices a change of a loop's own file, not of those that it calls: remove the `__pycache__` folders after one.

Loops write arrays number by number: `a[i] = b` with an array b makes numba compile its error message, for ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numba


def compiled(function: Callable | None = None, **options: Any) -> Any:
    """Compile at the first call and keep the result on disk; if no folder can be written, in memory only."""
    if function is None:
        return lambda function: compiled(function, **options)
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function": neither NUMBA_CACHE_DIR, the source folder nor the home is writable
        return numba.njit(**options)(function)


@dataclass(frozen=True)
class Loop:
    """A loop over `prange`, compiled twice, each time at its first call.

    Attributes:
        alone: for one thread. It compiles up to four times faster and needs no thread pool, which no fork survives.
        shared: for several threads.
    """

    alone: Callable[..., None]
    shared: Callable[..., None]


def loop(**options: Any) -> Callable[[Callable], Loop]:
    """Make a `Loop` of a function."""

    def compile_twice(function: Any) -> Loop:
        twin = FunctionType(function.__code__, function.__globals__, function.__name__)
        twin.__qualname__ = f"{function.__qualname__}_in_parallel"  # numba's cache goes by this name, not by the options
        return Loop(compiled(function, **options), compiled(twin, parallel=True, **options))

    return compile_twice
