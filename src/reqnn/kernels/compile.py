"""How kernels are compiled: once per machine where a cache can be written, without the GIL, with exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable | None = None, **options: Any) -> Any:
    """Compile at the first call and keep the result on disk; where no folder can be written, in memory only."""
    if function is None:
        return lambda function: compiled(function, **options)
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # "cannot cache function": neither NUMBA_CACHE_DIR, the source folder nor the home is writable
        return numba.njit(nogil=True, **options)(function)


def parallel(function: Callable) -> Any:
    """Compile with `prange` over numba's threads."""
    return compiled(function, parallel=True)
