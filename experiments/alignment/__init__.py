"""Alignment without correspondences, compared with PCA and ICP."""
