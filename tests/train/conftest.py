"""Small clouds and small settings, so that a run takes a second."""

import pytest
import torch

from small_training import clouds, held_out, settings  # noqa: F401


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
