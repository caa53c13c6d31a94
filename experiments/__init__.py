"""Experiments with this package; not part of it."""
