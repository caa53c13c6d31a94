"""Accuracy in any orientation against the number of training shapes: what a user would do otherwise, and revised networks."""
