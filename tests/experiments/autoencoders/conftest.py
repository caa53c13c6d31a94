"""Small clouds and small settings; the network has a name."""

import pytest
import torch

from small_training import clouds, held_out, settings  # noqa: F401


@pytest.fixture(autouse=True, scope="module")
def _autoencoder(zoo):
    torch.set_num_threads(1)
