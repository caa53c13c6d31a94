"""Hypothesis draws the same examples in every run; each worker of pytest-xdist keeps to one core."""

import torch
from hypothesis import settings

settings.register_profile("reqnn", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("reqnn")
torch.set_num_threads(1)
