import pytest

from experiments.bench.settings import Settings
from experiments.bench.variants import ORIGINAL


@pytest.fixture(scope="module")
def settings():
    """Small enough to run all parts in seconds."""
    return Settings(
        batch=(2,),
        points=(24,),
        kernel_points=(40,),
        growth_points=(32, 64, 128),
        threads=1,
        repeats=2,
        width=0.0625,
        models=("dgcnn",),
        brief=True,
    )


@pytest.fixture
def timed():
    """A record of the models' part with the given seconds."""

    def make(variant, seconds, model="dgcnn", mode="inference", batch=4, points=1024):
        where = {"what": "models", "model": model, "mode": mode, "batch": batch, "points": points, "variant": variant}
        relative = {"median": 1.0 if variant == ORIGINAL else 0.5, "low": 0.4, "high": 1.1} if seconds else None
        return {**where, "seconds": seconds, "relative": relative, "skipped": None if seconds else "takes 99 s"}

    return make
