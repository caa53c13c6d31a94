"""Hypothesis draws the same examples in every run."""

from hypothesis import settings

settings.register_profile("reqnn", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("reqnn")
