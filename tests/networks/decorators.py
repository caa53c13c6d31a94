"""A decorator in a Python module of its own, whose code uses that module's globals."""

import functools
import time


def timed(function):
    """Remember how long the last call took."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        wrapper.seconds = time.perf_counter() - start
        return result

    return wrapper
