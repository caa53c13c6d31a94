"""How well clouds are aligned without correspondences, beside PCA and ICP."""
