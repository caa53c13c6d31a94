"""Normals of scanned objects in any orientation, beside PCA normals."""
