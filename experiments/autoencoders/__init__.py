"""Autoencoders, ordinary and revised, on rotated objects."""
